"""The log of a changelog state backend: its bytes, and what its changes make of the state that they follow."""
