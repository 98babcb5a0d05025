"""A digest of all records of a state that depends neither on their order nor on the max parallelism.

Of a record: 128-bit murmur3 (x64) over the length of its key without the key group (`i32`), that key, and its value; of
a state: the number of its records and the sum of their digests mod 2^128. A second sum, of each digest times its key
group plus one, also tells where the records are. A null in a map counts as its flag alone: heap backends write more
behind it, RocksDB's does not (`RocksDBMapState`, `HeapMapState` in their snapshots).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rescale.flink.arrays import Flags, Longs, Words
from rescale.flink.keyed.blocks.records import Records

MODULUS = 1 << 128


class StateDigest(NamedTuple):
    records: int = 0
    digest: int = 0
    placed: int = 0

    def plus(self, other: StateDigest) -> StateDigest:
        return StateDigest(
            self.records + other.records,
            (self.digest + other.digest) % MODULUS,
            (self.placed + other.placed) % MODULUS,
        )


class RecordDigester:
    """Adds up the digests of records; state i may hold nulls of a map if `is_map[i]`."""

    def __init__(self, is_map: Sequence[bool] | Flags) -> None:
        self._is_map = np.array(is_map, np.bool_)
        self._counts = np.zeros(len(is_map), np.int64)
        self._sums = np.zeros(4 * len(is_map), np.uint64)
        self._words = np.empty(0, np.uint64)

    def add(self, records: Records, groups: Longs) -> None:
        """`groups` are the key groups that the records are counted under."""
        from rescale.flink.keyed.blocks import digest_loop

        longest = int((records.ends - records.starts).max()) + 32
        if longest > 8 * len(self._words):
            self._words = np.empty(longest // 8 + 2, np.uint64)
        digest_loop.digest_records(
            records.data,
            records.starts,
            records.limits,
            records.ends,
            records.states,
            groups,
            self._is_map,
            self._words,
            self._words.view(np.uint8),
            self._counts,
            self._sums,
        )

    def lower_halves(self) -> Words:
        """By state, of the sums of digests."""
        return self._sums[::4]

    def digests(self) -> list[StateDigest]:
        """By state."""
        sums = self._sums.reshape(-1, 4).tolist()
        return [
            StateDigest(count, low | high << 64, placed_low | placed_high << 64)
            for count, (low, high, placed_low, placed_high) in zip(self._counts.tolist(), sums, strict=True)
        ]


def key_digests(records: Records) -> Words:
    """For each record 64 bits that depend on its key alone."""
    return record_digests(replace(records, ends=records.limits + 4), np.zeros(len(records), np.bool_))


def record_digests(records: Records, is_map: Flags) -> Words:
    """For each record the lower half of its digest; it may hold a null of a map where `is_map`."""
    digester = RecordDigester(is_map)
    if len(records):
        digester.add(replace(records, states=np.arange(len(records))), records.groups)
    return digester.lower_halves()
