"""The plan executed, and its result checked: in this process, in workers or in Spark. Only the mains import this."""
