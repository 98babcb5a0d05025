"""State ids translated in canonical key groups: compared with a slow twin, and in groups that Flink wrote."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.flink.encoding.snappy import FramedDecompressor
from rescale.flink.keyed.blocks.canonical import StateIdTranslator
from rescale.flink.keyed.blocks.record_marks import END_OF_GROUP, NEXT_ID_FLAG
from rescale.flink.keyed.key_group_table import Framing
from rescale.text.errors import SnapshotError
from support.canonical import Record, read_records, write_records
from support.snapshots import Keyed, keyed_streams


def translated(group: bytes, new_ids: tuple[int, ...], sizes: list[int]) -> bytes:
    """Return the group with state ids translated, from chunks of these sizes, then the rest in one chunk."""
    translator, out, at = StateIdTranslator(new_ids), b"", 0
    for size in sizes:
        out += translator.feed(group[at : at + size])
        at += size
    out += translator.feed(group[at:])
    translator.finish()
    return out


keys = st.builds(lambda first, rest: bytes((first,)) + rest, st.integers(0, NEXT_ID_FLAG - 1), st.binary(max_size=9))
records = st.lists(st.builds(Record, st.integers(0, 4), keys, st.binary(max_size=12)), min_size=1, max_size=20)
new_id_tables = st.lists(st.integers(0, END_OF_GROUP - 1), min_size=5, max_size=5).map(tuple)
chunk_sizes = st.lists(st.integers(0, 9), max_size=60)


@given(records, new_id_tables, chunk_sizes)
def test_translation_changes_only_the_state_ids(
    records: list[Record], new_ids: tuple[int, ...], sizes: list[int]
) -> None:
    group = write_records(records)
    result = translated(group, new_ids, sizes)
    assert len(result) == len(group)
    # Two state ids may be translated to the same one, so the result is read back, not compared with a written group.
    assert read_records(result) == [record._replace(state=new_ids[record.state]) for record in records]


@given(records, st.permutations(range(5)).map(tuple))
def test_translation_byte_by_byte_gives_the_same_group(records: list[Record], new_ids: tuple[int, ...]) -> None:
    group = write_records(records)
    expected = write_records([record._replace(state=new_ids[record.state]) for record in records])
    assert translated(group, new_ids, [1] * len(group)) == expected


@given(records, st.data())
def test_truncated_group_is_refused(records: list[Record], data: st.DataObject) -> None:
    group = write_records(records)
    end = data.draw(st.integers(0, len(group) - 1))
    with pytest.raises(SnapshotError, match="inside a record"):
        translated(group[:end], (0, 1, 2, 3, 4), [])


@given(records, chunk_sizes, st.data())
def test_damaged_group_is_refused_or_keeps_its_size(
    records: list[Record], sizes: list[int], data: st.DataObject
) -> None:
    group = bytearray(write_records(records))
    group[data.draw(st.integers(0, len(group) - 1))] = data.draw(st.integers(0, 255))
    with suppress(SnapshotError):
        assert len(translated(bytes(group), (4, 3, 2, 1, 0), sizes)) == len(group)


GROUP_OF_ONE_RECORD = write_records([Record(1, b"\x05k", b"v")])


@pytest.mark.parametrize(
    ("group", "what", "offset"),
    [
        (b"\x00\x02" + GROUP_OF_ONE_RECORD[2:], "a state id that is not in the header", 0),
        (b"\xff\xff", "a state id that is not in the header", 0),
        (b"\x00\x01\xff\xff\xff\xff\x85", "an impossible length", 2),
        (b"\x00\x01\x80\x00\x00\x00\x85", "an impossible length", 2),
        (b"\x00\x01\x00\x00\x00\x00\x85", "an impossible length", 2),
        (b"\x00\x01\x00\x00\x00\x01\x85\xff\xff\xff\xff", "an impossible length", 7),
        (GROUP_OF_ONE_RECORD[:-2] + b"\x00\x02", "a state id that is not in the header", len(GROUP_OF_ONE_RECORD) - 2),
        (GROUP_OF_ONE_RECORD + b"\x00", "bytes after the end", len(GROUP_OF_ONE_RECORD)),
    ],
)
@pytest.mark.parametrize("chunk_size", [1, 1000])
def test_broken_framing_is_refused_with_its_offset(group: bytes, what: str, offset: int, chunk_size: int) -> None:
    with pytest.raises(SnapshotError, match=what) as caught:
        translated(group, (0, 1), [chunk_size] * len(group))
    assert caught.value.offset == offset


def test_empty_stream_is_refused_as_a_group() -> None:
    with pytest.raises(SnapshotError, match="inside a record"):
        translated(b"", (0,), [])


CANONICAL_STREAMS = [keyed for keyed in keyed_streams() if keyed.stream.framing is Framing.CANONICAL]


def uncompressed_group(keyed: Keyed, group: bytes) -> bytes:
    if keyed.stream.parsed is None or not keyed.stream.parsed.compressed:
        return group
    decompressor = FramedDecompressor()
    decompressed = decompressor.feed(group)
    decompressor.finish()
    return decompressed


@pytest.mark.parametrize("keyed", CANONICAL_STREAMS, ids=lambda keyed: keyed.where)
def test_groups_of_flink_are_read_and_translated(keyed: Keyed) -> None:
    assert keyed.stream.parsed is not None
    state_count = len(keyed.stream.parsed.states)
    identity, reversed_ids = tuple(range(state_count)), tuple(reversed(range(state_count)))
    (operator,) = (operator for operator in keyed.snapshot.operators if keyed.stream in operator.keyed)
    prefix_size = 1 if operator.max_parallelism <= 128 else 2
    for key_group, source_group in keyed.groups():
        group = uncompressed_group(keyed, source_group)
        records = read_records(group)
        assert {state for state, _, _ in records} <= set(identity)
        assert {int.from_bytes(key[:prefix_size], "big") for _, key, _ in records} == {key_group}
        assert translated(group, identity, [7] * 20) == group
        assert translated(group, reversed_ids, [3] * 50) == write_records(
            [record._replace(state=reversed_ids[record.state]) for record in records]
        )


def test_fixtures_hold_compressed_and_uncompressed_canonical_groups() -> None:
    forms = {keyed.stream.parsed.compressed for keyed in CANONICAL_STREAMS if keyed.stream.parsed is not None}
    assert forms == {True, False}
    assert any(chain.from_iterable(keyed.groups() for keyed in CANONICAL_STREAMS))
