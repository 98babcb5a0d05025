"""Cases with another max parallelism: keys of every type, states and graphs of every kind.

The max parallelisms lie on both sides of 128, above which the prefix of a key group has two bytes. The new ones are
multiples or divisors of the old ones, or neither.
"""

from __future__ import annotations

from oracle.cases import COMPRESSED, ROCKSDB, Case, everything, graph
from oracle.key_types import FOLDED_KEYS, HASHED_KEYS, KEYS_OF_SUBCLASSES, UNKNOWN_KEYS, keyed

MAX_PARALLELISM_CASES = (
    # Max parallelisms, with parallelisms, backends and compression.
    Case(everything(4, raw_operator=1), 6, max_after=1000, onto="rocksdb"),
    Case(everything(3).with_(**ROCKSDB, **COMPRESSED), 3, max_after=1000),
    Case(everything(3, None), 5, max_after=1000),
    Case(everything(4).with_(**ROCKSDB), 4, max_after=256, onto="rocksdb"),
    Case(everything(3).with_(**COMPRESSED), 7, max_after=256),
    Case(everything(4, raw_operator=1), 3, max_after=64, onto="rocksdb"),
    Case(everything(3, 1000).with_(**ROCKSDB), 6, max_after=128),
    Case(everything(4, 1000).with_(**COMPRESSED), 4, max_after=128),
    Case(everything(4, 10), 6, max_after=97),
    Case(everything(3, 4096, keys=30), 2, max_after=32768, onto="rocksdb"),
    Case(everything(4).with_(**ROCKSDB), 5, max_after=129),
    Case(everything(4, 129), 4, max_after=128, onto="rocksdb"),
    Case(everything(2).with_(**ROCKSDB, **COMPRESSED), 3, max_after=4096),
    # Few keys, and states that only some subtasks have, each with its own state ids.
    Case(everything(4, keys=0), 3, max_after=1000),
    Case(everything(4, 10, keys=1).with_(**ROCKSDB), 4, max_after=97),
    Case(everything(4, keys=1).with_(**COMPRESSED), 2, max_after=64, onto="rocksdb"),
    Case(everything(4, lazy=1).with_(**ROCKSDB), 3, max_after=1000, onto="rocksdb"),
    Case(everything(4, lazy=1, keys=5).with_(**COMPRESSED), 7, max_after=64),
    Case(everything(4, 129, lazy=1, keys=5).with_(**ROCKSDB, **COMPRESSED), 4, max_after=128),
    # The native format of the hashmap backend, which is kept.
    Case(everything(4, lazy=1, keys=5), 3, "native", max_after=1000),
    Case(everything(3, 1000).with_(**COMPRESSED), 5, "checkpoint", max_after=64),
    Case(graph("windows", 3), 4, "native", max_after=256),
    Case(graph("cep", 3), 4, "native", max_after=1000),
    Case(graph("sql", 3, many_fields=1), 2, "checkpoint", max_after=1000),
    # Max parallelism 1, which the job itself set.
    Case(
        keyed(1, 1, "Long", "String"),
        1,
        exceptions_after={"by Long": 3},
        max_exceptions_after={"by Long": 128, "by String": 300},
        onto="rocksdb",
        quick=True,
    ),
    Case(keyed(1, 1, "Tuple2").with_(**ROCKSDB), 1, max_exceptions_after={"by Tuple2": 1000}),
    # Operators with different shapes, before and after the rescale.
    Case(everything(4).with_(exceptions={"lists": 7, "rules": 2}), 3, exceptions_after={"lists": 5}, max_after=256),
    Case(keyed(3, 128, "Long", "String"), 4, max_exceptions_after={"by String": 1000}, onto="rocksdb"),
    # Graphs.
    Case(graph("clicks", 4), 6, max_after=1000, onto="rocksdb"),
    Case(graph("windows", 4).with_(**ROCKSDB), 3, max_after=1000, quick=True),
    Case(graph("windows", 3).with_(**COMPRESSED), 5, max_after=64, onto="rocksdb"),
    Case(graph("sql", 4, many_fields=1), 3, max_after=256),
    Case(graph("sql", 3).with_(**ROCKSDB), 4, max_after=129, onto="rocksdb"),
    Case(graph("splits", 4), 6, max_after=1000),
    Case(graph("cep", 3).with_(**ROCKSDB), 2, max_after=256),
    Case(graph("finished", 4), 6, max_after=1000),
    Case(graph("finished", 3, partially=1), 3, max_after=256),
    # Types of keys.
    Case(keyed(3, 128, *HASHED_KEYS), 2, max_after=1000, label="all types"),
    Case(keyed(2, 128, *HASHED_KEYS, *FOLDED_KEYS, *UNKNOWN_KEYS), 3, max_after=64, label="all types"),
    Case(keyed(2, 128, *KEYS_OF_SUBCLASSES).with_(**ROCKSDB), 3, max_after=64, label="a subclass per subtask"),
    Case(keyed(3, 128, *FOLDED_KEYS), 2, max_after=1000, label="POJOs"),
    Case(
        keyed(3, 128, "BinaryRowData", "Nested rows", "Nested tuples", "String", "UUID").with_(**ROCKSDB),
        3,
        max_after=1000,
        onto="rocksdb",
        label="long types",
    ),
    Case(keyed(4, 10, "String", "RowData", "Row").with_(**COMPRESSED), 3, max_after=97),
    # A second rescale, a restore at another parallelism, or CLAIM mode.
    Case(everything(4), 3, max_after=1000, second_after=5, second_max_after=128),
    Case(graph("windows", 3).with_(**ROCKSDB), 4, max_after=1000, second_after=3, second_max_after=128, onto="rocksdb"),
    Case(everything(4).with_(**ROCKSDB), 7, max_after=1000, restored_parallelism=3),
    Case(everything(3, raw_operator=1), 4, max_after=256, claim=True),
    # Values of a serializer of the job's own, which Rescale does not know.
    Case(graph("typed", 2, money=1).with_(**ROCKSDB), 3, "native", max_after=1000, onto="rocksdb"),
    Case(graph("typed", 2, money=1), 3, max_after=1000, onto="rocksdb"),
    # SQL of all sorts, and merging windows of Java records.
    Case(graph("queries", 2, joins=1, upserts=1), 3, "native", max_after=1000),
    Case(graph("queries", 2, overs=1, groups=1), 3, "native", max_after=1000),
    Case(graph("merging", 2), 3, "native", max_after=1000),
    Case(graph("queries", 2, ranks=1).with_(**ROCKSDB), 3, "native", max_after=64, onto="rocksdb"),
    Case(graph("merging", 2, continuous=1).with_(**ROCKSDB), 3, "native", max_after=64, onto="rocksdb"),
)
