"""State with a time to live (TTL): times of last access, and the removal of old values."""
