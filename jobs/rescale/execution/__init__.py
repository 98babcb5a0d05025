"""The plan executed, and its result checked, in a plain loop, in worker processes or in Spark. Only the mains in `jobs/` import this."""
