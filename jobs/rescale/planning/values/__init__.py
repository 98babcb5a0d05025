"""A plan as values, which a document holds."""
