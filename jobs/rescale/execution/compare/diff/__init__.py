"""Comparison of any two snapshots of a job, whatever their shapes and whoever made them.

It compares what Flink would restore, state by state: keyed records, list and union elements, broadcast copies. Where
they are stored does not matter. A first pass over all state gives a count and a digest of each state; a second pass
finds the first differences of states whose digests differ.
"""
