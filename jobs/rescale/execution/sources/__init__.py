"""Reads keyed state of every kind from storage, as records."""
