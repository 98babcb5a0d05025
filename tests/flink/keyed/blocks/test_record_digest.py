"""Digests of records, compared with murmur3 of `mmh3` and sums in Python, in any order and any batches."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import mmh3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.flink.keyed.blocks.record_digest import MODULUS, RecordDigester, StateDigest, key_digests, record_digests
from support.canonical import Record
from support.composite import records_in_buffer

IS_MAP = (False, True, False)
PlacedRecord = tuple[Record, int]
"""A record and its key group."""

values = st.one_of(st.binary(max_size=40), st.binary(max_size=9).map(lambda rest: b"\1" + rest))
placed_records = st.tuples(
    st.builds(Record, st.integers(0, len(IS_MAP) - 1), st.binary(max_size=40), values), st.integers(0, 32767)
)


def digest_of(record: Record) -> int:
    """Return the digest of one record, by the rule."""
    value = record.value
    if IS_MAP[record.state] and value[:1] == b"\1":
        value = b"\1"
    data = struct.pack(">i", len(record.key)) + record.key + value
    return int.from_bytes(mmh3.mmh3_x64_128_digest(data), "little")


def expected_digests(records: Sequence[PlacedRecord]) -> list[StateDigest]:
    sums = []
    for state in range(len(IS_MAP)):
        digests_and_groups = [(digest_of(record), group) for record, group in records if record.state == state]
        total, weighted = (
            sum(digest for digest, _ in digests_and_groups),
            sum(digest * (group + 1) for digest, group in digests_and_groups),
        )
        sums.append(StateDigest(len(digests_and_groups), total % MODULUS, weighted % MODULUS))
    return sums


def digests(records: Sequence[PlacedRecord], batch_size: int = 1000) -> list[StateDigest]:
    digester = RecordDigester(IS_MAP)
    for i in range(0, len(records), batch_size):
        part = records[i : i + batch_size]
        batch = records_in_buffer([record for record, _ in part], [group for _, group in part])
        digester.add(batch, batch.groups)
    return digester.digests()


@given(st.lists(placed_records, max_size=20), st.integers(1, 20))
def test_digests_equal_those_of_the_slow_twin(records: list[PlacedRecord], batch_size: int) -> None:
    assert digests(records, batch_size) == expected_digests(records)


@given(st.lists(placed_records, max_size=9), st.data())
def test_digests_are_independent_of_order(records: list[PlacedRecord], data: st.DataObject) -> None:
    assert digests(data.draw(st.permutations(records)), 3) == digests(records)


@given(st.lists(placed_records, max_size=9), st.lists(placed_records, max_size=9))
def test_digests_of_parts_add_up(first: list[PlacedRecord], other: list[PlacedRecord]) -> None:
    parts = zip(digests(first), digests(other), strict=True)
    assert [mine.plus(yours) for mine, yours in parts] == digests(first + other)


def test_records_of_up_to_three_murmur_blocks_have_the_digests_of_the_slow_twin() -> None:
    """A block of murmur has 16 bytes; the last block may be shorter."""
    for size in range(50):
        records = [(Record(0, bytes(range(size)), b""), 0), (Record(0, b"", bytes(range(size, 0, -1))), 1)]
        assert digests(records) == expected_digests(records)


def test_large_records_among_small_ones_have_the_digests_of_the_slow_twin() -> None:
    records = [(Record(0, b"k", bytes(size)), 0) for size in (1, 5000, 3, 100_000, 0)]
    assert digests(records, 2) == expected_digests(records)


PLACED_RECORD = (Record(0, b"key", b"value"), 4)


@pytest.mark.parametrize(
    "other_record",
    [
        (Record(0, b"keyv", b"alue"), 4),
        (Record(0, b"ke", b"yvalue"), 4),
        (Record(0, b"key", b"valuf"), 4),
        (Record(0, b"key", b"value\0"), 4),
        (Record(0, b"kex", b"value"), 4),
        (Record(1, b"key", b"value"), 4),
    ],
)
def test_another_record_has_another_digest(other_record: PlacedRecord) -> None:
    assert [digest[:2] for digest in digests([PLACED_RECORD])] != [digest[:2] for digest in digests([other_record])]


def test_record_in_another_key_group_changes_only_the_digest_with_groups() -> None:
    moved_record = (PLACED_RECORD[0], 5)
    (digest, *_), (moved_digest, *_) = digests([PLACED_RECORD]), digests([moved_record])
    assert digest[:2] == moved_digest[:2]
    assert digest.digest_with_groups != moved_digest.digest_with_groups


def test_records_that_swap_key_groups_change_the_digest() -> None:
    another = Record(0, b"yek", b"eulav")
    assert digests([PLACED_RECORD, (another, 9)]) != digests([(PLACED_RECORD[0], 9), (another, PLACED_RECORD[1])])


def test_bytes_behind_the_null_flag_of_a_map_value_are_ignored() -> None:
    short, long = (Record(1, b"key", b"\1"), 0), (Record(1, b"key", b"\1\0\0\7"), 0)
    assert digests([short]) == digests([long])
    assert digests([(Record(1, b"key", b"\0"), 0)]) != digests([(Record(1, b"key", b"\0\0"), 0)])
    assert digests([(Record(1, b"key", b""), 0)]) != digests([short])
    assert digests([(short[0]._replace(state=0), 0)]) != digests([(long[0]._replace(state=0), 0)]), "only in maps"


@given(st.lists(placed_records, max_size=20))
def test_single_records_and_keys_have_the_digests_of_the_slow_twin(records: list[PlacedRecord]) -> None:
    batch = records_in_buffer([record for record, _ in records], [group for _, group in records])
    is_map = np.array([IS_MAP[record.state] for record, _ in records], np.bool_)
    two_to_64 = 1 << 64
    assert record_digests(batch, is_map).tolist() == [digest_of(record) % two_to_64 for record, _ in records]
    keys = (record._replace(state=0, value=b"") for record, _ in records)
    assert key_digests(batch).tolist() == [digest_of(key) % two_to_64 for key in keys]
