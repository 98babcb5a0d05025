"""Records that get new key groups: read in batches, sorted into blocks, sent through a shuffle, written in order.

A *block* is a run of records of one (operator, key group, state) as in the result: under their new key group, but
without the marks that frame a group. Map tasks read records from `sources` of any kind, compute their new key groups
and make blocks. Reduce tasks order the blocks of each partition and hand them to a writer, range by range. Nothing here
depends on a kind of state.
"""
