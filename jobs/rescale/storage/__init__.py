"""Storage: local files and S3 behind one small interface."""
