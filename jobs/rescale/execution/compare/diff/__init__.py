"""Comparison of any two snapshots of a job, whatever their shapes and whoever made them.

It compares what Flink would hand to the job: records, elements and copies by state, wherever they are stored. A first
pass over all state gives a count and a digest of each state; a second pass finds the first differences.
"""
