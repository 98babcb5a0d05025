"""Find the keys whose values may differ between two databases that share most of their files."""
