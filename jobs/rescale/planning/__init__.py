"""Planning: a snapshot and a request become a plan. `prepare` reads whatever a plan needs; the rest is pure."""
