"""Records that get new key groups: read in batches, sorted into blocks, sent through a shuffle, written in order.

A *block* is a run of records of one (operator, key group, state) as they will stand in the result: under their new key
group, but without the marks that frame a group. On the sort side `sources` give records, whatever they are kept in, a
class of work says where each goes, and blocks are made. On the write side each partition puts its blocks in order, and
hands them to the writer of a kind, range by range. No kind is known here by name.
"""
