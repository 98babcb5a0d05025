"""Execution of a plan and validation of its result, in this process, in worker processes or in Spark.

Only the programs in `jobs/*.py` import this package.
"""
