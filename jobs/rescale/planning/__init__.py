"""Request and snapshot in, plan out. Reads `_metadata` and stream headers, never the state itself."""
