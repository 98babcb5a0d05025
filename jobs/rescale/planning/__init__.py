"""From a snapshot and a request to a plan. `prepare` has read what a plan needs; the rest is pure."""
