"""What is there: a snapshot's metadata, where its streams lie, what their headers say."""
