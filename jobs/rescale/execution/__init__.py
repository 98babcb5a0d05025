"""What Spark runs: the plan executed, and its result checked. Only the mains in `jobs/` import this."""
