"""The plan of a run: the types of the values that its JSON document contains."""
