"""Make databases for new ranges of key groups, from files of existing databases or from new files."""
