"""The request of a user: parses its values, and resolves them against a snapshot."""
