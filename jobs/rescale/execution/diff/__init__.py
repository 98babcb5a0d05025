"""Do two snapshots hold the same state? Neither need be a result of ours, and their shapes may differ.

Compared is what Flink would hand to the job: records, elements, copies, by state, wherever they lie. A first look at
all state gives a count and a digest of each state; a second one, only at what differs, finds the first differences.
"""
