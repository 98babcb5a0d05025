"""The plan of a run: values that its JSON document contains."""
