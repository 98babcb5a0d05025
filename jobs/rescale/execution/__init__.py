"""The plan executed, and its result checked, in Spark or a plain loop. Only the mains in `jobs/` import this."""
