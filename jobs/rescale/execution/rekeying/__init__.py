"""Records that get new key groups: read in batches, sorted into blocks, sent through a shuffle, written in order.

A *block* is a run of records of one operator, new key group and state. Its keys begin with the new key group, but the
state ids that a key group has between records are not there yet. Map tasks read records from `sources` of any kind,
compute their new key groups and make blocks. Reduce tasks order the blocks of each partition and hand them to a writer,
range by range. Nothing here depends on a kind of state.
"""
