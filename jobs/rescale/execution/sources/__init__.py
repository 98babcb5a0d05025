"""Records of every kind, read from storage."""
