"""Make databases for other key groups, from files of existing databases or from new files."""
