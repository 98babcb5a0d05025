"""Planning makes a plan from a snapshot and a request. `prepare` reads what a plan needs; `planner` reads nothing."""
