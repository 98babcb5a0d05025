"""The request: how its values are parsed, and what they mean for a given snapshot."""
