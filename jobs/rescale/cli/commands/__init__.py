"""The commands, one module each: arguments, help and execution."""
