"""Databases for other key groups: of the files of existing ones, or of new ones."""
