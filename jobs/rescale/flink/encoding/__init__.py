"""What Flink's formats are made of: Java's data streams, Snappy's frames, serialized objects."""
