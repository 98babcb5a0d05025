"""Plans new streams: one module for each kind of stream that an operator's state becomes."""
