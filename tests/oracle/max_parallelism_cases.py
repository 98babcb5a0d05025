"""Snapshots that get another max parallelism: keys of every type, states and graphs of every kind.

All maxima on both sides of 128, where the prefix of a key group grows to two bytes; multiples, divisors and neither.
"""

from __future__ import annotations

from oracle.cases import COMPRESSED, ROCKSDB, Case, everything, graph
from oracle.key_types import FOLDED_KEYS, HASHED_KEYS, KEYS_OF_SUBCLASSES, UNKNOWN_KEYS, keyed

MAX_PARALLELISM_CASES = (
    # The numbers, with parallelism, backends and compression.
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
    # Few keys, and states that only some subtasks know, each with ids of its own.
    Case(everything(4, keys=0), 3, max_after=1000),
    Case(everything(4, 10, keys=1).with_(**ROCKSDB), 4, max_after=97),
    Case(everything(4, keys=1).with_(**COMPRESSED), 2, max_after=64, onto="rocksdb"),
    Case(everything(4, lazy=1).with_(**ROCKSDB), 3, max_after=1000, onto="rocksdb"),
    Case(everything(4, lazy=1, keys=5).with_(**COMPRESSED), 7, max_after=64),
    Case(everything(4, 129, lazy=1, keys=5).with_(**ROCKSDB, **COMPRESSED), 4, max_after=128),
    # The heap's own format, which stays what it is.
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
    # Operators in different shapes, before and after.
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
    Case(keyed(3, 128, *HASHED_KEYS), 2, max_after=1000, said="all types"),
    Case(keyed(2, 128, *HASHED_KEYS, *FOLDED_KEYS, *UNKNOWN_KEYS), 3, max_after=64, said="all types"),
    Case(keyed(2, 128, *KEYS_OF_SUBCLASSES).with_(**ROCKSDB), 3, max_after=64, said="subclasses met apart"),
    Case(keyed(3, 128, *FOLDED_KEYS), 2, max_after=1000, said="POJOs"),
    Case(
        keyed(3, 128, "BinaryRowData", "Nested rows", "Nested tuples", "String").with_(**ROCKSDB),
        3,
        max_after=1000,
        onto="rocksdb",
        said="long types",
    ),
    Case(keyed(4, 10, "String", "RowData", "Row").with_(**COMPRESSED), 3, max_after=97),
    # What follows.
    Case(everything(4), 3, max_after=1000, then=5, max_then=128),
    Case(graph("windows", 3).with_(**ROCKSDB), 4, max_after=1000, then=3, max_then=128, onto="rocksdb"),
    Case(everything(4).with_(**ROCKSDB), 7, max_after=1000, restored=3),
    Case(everything(3, raw_operator=1), 4, max_after=256, claim=True),
    # Values of a serializer of the job's own, which nobody else knows.
    Case(graph("typed", 2, money=1).with_(**ROCKSDB), 3, "native", max_after=1000, onto="rocksdb"),
    Case(graph("typed", 2, money=1), 3, max_after=1000, onto="rocksdb"),
)
