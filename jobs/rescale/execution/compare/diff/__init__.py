"""Comparison of any two snapshots of a job: shapes and formats may differ, and Flink or Rescale may have written them.

The comparison is by state: keyed records, list and union elements, broadcast copies, as Flink would restore them. It
ignores where and in which order they are stored. A first pass gives a count and a digest of each state; a second pass
finds the first differences of states whose digests differ.
"""
