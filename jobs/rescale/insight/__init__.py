"""What a plan and a snapshot mean: what Flink itself would do, how even a shape is, how long it takes.

It is shown beside a plan and is no part of it.
"""
