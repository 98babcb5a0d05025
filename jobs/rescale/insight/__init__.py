"""Analyses a plan or a snapshot: how Flink itself would restore it, how even a shape is, how long a run takes.

This insight is shown with a plan, but is not part of the stored plan.
"""
