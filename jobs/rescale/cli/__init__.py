"""The command line: what all commands share, and the commands."""
