"""The command line: the commands, and the parts that they share."""
