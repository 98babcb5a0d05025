"""The options of commands, forms and steps."""
