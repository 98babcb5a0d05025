"""The layout of a heap backend's own format, read and written."""
