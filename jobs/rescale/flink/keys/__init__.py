"""Hashes of keys, as Java has them, from their bytes."""
