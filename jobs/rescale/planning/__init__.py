"""What shall be: request and snapshot in, plan out. `prepare` has read what a plan needs; the rest is pure."""
