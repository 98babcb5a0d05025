"""The encodings that Flink's formats use: Java's data streams, Snappy's frames, serialized Java objects."""
