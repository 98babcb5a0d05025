"""The meaning of a plan or a snapshot: what Flink itself would do, how even a shape is, how long a run takes.

The insight is shown beside a plan and is not a part of it.
"""
