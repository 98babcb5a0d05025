"""What is asked for, made sense of on the snapshot that there is."""
