"""Digest of all records of a state, independent of their order and of the max parallelism.

The digest of a record is 128-bit murmur3 (x64) of the length of its composite key without key group (`i32`), this key,
and its value. The digest of a state is the number of its records, and the sum of their digests mod 2^128. A second sum,
of digest × (key group + 1), also depends on the key groups of the records. A null value of a map is digested by its
flag alone: heap backends write bytes after the flag, RocksDB does not (`HeapMapState`, `RocksDBMapState`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rescale.flink.arrays import Flags, Longs, Words
from rescale.flink.keyed.blocks.record_marks import LENGTH_SIZE
from rescale.flink.keyed.blocks.records import Records

MODULUS = 1 << 128


class StateDigest(NamedTuple):
    """Number of records, sum of their digests, and sum of digest × (key group + 1); both sums mod 2^128."""

    records: int = 0
    digest: int = 0
    digest_with_groups: int = 0

    def plus(self, other: StateDigest) -> StateDigest:
        """Return the digest of all records in both digests."""
        return StateDigest(
            self.records + other.records,
            (self.digest + other.digest) % MODULUS,
            (self.digest_with_groups + other.digest_with_groups) % MODULUS,
        )


class RecordDigester:
    """Sums the digests of records, by state; if `is_map_by_state[i]`, state i is a map, whose values may be null."""

    def __init__(self, is_map_by_state: Sequence[bool] | Flags) -> None:
        self._is_map_by_state = np.array(is_map_by_state, np.bool_)
        self._record_counts = np.zeros(len(is_map_by_state), np.int64)
        self._sums = np.zeros(4 * len(is_map_by_state), np.uint64)
        self._message_words = np.empty(0, np.uint64)

    def add(self, records: Records, key_groups: Longs) -> None:
        """Add records; `key_groups` (int64) has the key group with which each record enters the second sum."""
        from rescale.flink.keyed.blocks import digest_loop

        needed_bytes = int((records.ends - records.key_starts).max()) + 32
        if needed_bytes > 8 * len(self._message_words):
            self._message_words = np.empty(needed_bytes // 8 + 2, np.uint64)
        digest_loop.digest_records(
            records.data,
            records.key_starts,
            records.key_ends,
            records.ends,
            records.state_ids,
            key_groups,
            self._is_map_by_state,
            self._message_words,
            self._message_words.view(np.uint8),
            self._record_counts,
            self._sums,
        )

    def lower_halves(self) -> Words:
        """Return the lower 64 bits of the sum of digests (uint64), by state."""
        return self._sums[::4]

    def digests(self) -> list[StateDigest]:
        sums = self._sums.reshape(-1, 4).tolist()
        return [
            StateDigest(record_count, low | high << 64, with_groups_low | with_groups_high << 64)
            for record_count, (low, high, with_groups_low, with_groups_high) in zip(
                self._record_counts.tolist(), sums, strict=True
            )
        ]


def key_digests(records: Records) -> Words:
    """Return a digest of each record's key (uint64)."""
    return record_digests(replace(records, ends=records.key_ends + LENGTH_SIZE), np.zeros(len(records), np.bool_))


def record_digests(records: Records, is_map: Flags) -> Words:
    """Return the lower 64 bits of each record's digest (uint64); the value of record i may be null if `is_map[i]`."""
    digester = RecordDigester(is_map)
    if len(records):
        digester.add(replace(records, state_ids=np.arange(len(records))), records.groups)
    return digester.lower_halves()
