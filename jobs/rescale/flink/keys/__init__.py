"""Java hash codes of keys, computed from the bytes of the keys."""
