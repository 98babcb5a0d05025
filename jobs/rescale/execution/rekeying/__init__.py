"""Records that get new key groups: read in batches, sorted into blocks, sent through Spark's shuffle, written in order.

A *block* is a run of records of one (operator, key group, state) as they will stand in the result: under their new key
group, but without the marks that frame a group. Readers make blocks, a class of work says where a record goes, writers
put blocks together; none of them knows the others.
"""
