"""The request: parsing of its values, and their resolution against a snapshot."""
