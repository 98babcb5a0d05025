"""The commands, a file for each: its words, what it says of itself, and what it does."""
