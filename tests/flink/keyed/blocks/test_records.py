"""Records found in key groups, many at a time, compared with a twin that reads them one by one; and broken framing."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.flink.encoding.snappy import FramedDecompressor
from rescale.flink.key_groups import prefix_size
from rescale.flink.keyed.blocks import records as module
from rescale.flink.keyed.blocks.record_marks import ID_SIZE
from rescale.flink.keyed.blocks.records import RecordReader, framed_size
from rescale.flink.keyed.header import is_compressed, read_keyed_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.text.errors import SnapshotError, UnsupportedError
from support.canonical import Record, prefix, read_group, write_group
from support.snapshot_bytes import keyed_header, keyed_state
from support.snapshots import Keyed, keyed_streams

STATES = 4
GroupedRecords = list[tuple[int, Record]]
RecordsByGroup = dict[int, list[Record]]


records = st.builds(Record, st.integers(0, STATES - 1), st.binary(max_size=9), st.binary(max_size=12))
maxima = st.sampled_from([1, 128, 129, 32768])


@st.composite
def random_groups(draw: st.DrawFn) -> tuple[int, RecordsByGroup]:
    """Draw a max parallelism, and records of some of its key groups in ascending order."""
    max_parallelism = draw(maxima)
    groups = draw(
        st.dictionaries(
            st.integers(0, max_parallelism - 1), st.lists(records, min_size=1, max_size=8), min_size=1, max_size=5
        )
    )
    return max_parallelism, dict(sorted(groups.items()))


def written_groups(max_parallelism: int, groups: RecordsByGroup) -> list[bytes]:
    return [write_group(group, records, max_parallelism) for group, records in groups.items()]


def starts_of(groups: Sequence[bytes]) -> np.ndarray:
    return np.array([0, *accumulate(map(len, groups))][:-1], np.int64)


def chunks_of(data: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """Yield the data in chunks of these sizes, which are repeated until the end; chunks may be empty."""
    at = i = 0
    while at < len(data):
        size = sizes[i % len(sizes)] if any(sizes) else len(data)
        yield data[at : at + size]
        at, i = at + size, i + 1


@contextmanager
def small_buffers(buffer_size: int, records_at_once: int) -> Iterator[None]:
    with patch.object(module, "BUFFER_SIZE", buffer_size), patch.object(module, "RECORDS_AT_ONCE", records_at_once):
        yield


def records_read(
    reader: RecordReader, key_groups: Sequence[int], starts: np.ndarray, chunks: Iterator[bytes]
) -> GroupedRecords:
    """Return what the reader yields, copied before it is overwritten."""
    records = []
    for batch in reader.read(np.array(key_groups, np.int64), starts, chunks):
        assert 0 < len(batch) <= module.RECORDS_AT_ONCE
        for i in range(len(batch)):
            start, limit, end = batch.key_starts[i], batch.key_ends[i], batch.ends[i]
            assert int.from_bytes(batch.data[limit : limit + 4].tobytes(), "big") == end - limit - 4
            key, value = batch.data[start:limit].tobytes(), batch.data[limit + 4 : end].tobytes()
            records.append((int(batch.groups[i]), Record(int(batch.state_ids[i]), key, value)))
    return records


def expected_records(groups: RecordsByGroup) -> GroupedRecords:
    return [(group, record) for group, records in groups.items() for record in records]


@given(random_groups(), st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(1, 60), st.integers(1, 9))
def test_all_records_are_read_with_any_chunks_and_buffers(
    max_parallelism_and_groups: tuple[int, RecordsByGroup], sizes: list[int], buffer_size: int, records_at_once: int
) -> None:
    max_parallelism, groups = max_parallelism_and_groups
    data = written_groups(max_parallelism, groups)
    with small_buffers(buffer_size, records_at_once):
        reader = RecordReader(max_parallelism, STATES)
        for _ in range(2):  # the second read reuses the buffers
            records = records_read(reader, list(groups), starts_of(data), chunks_of(b"".join(data), sizes))
            assert records == expected_records(groups)
    assert [pair for group in data for pair in read_group(group, max_parallelism)] == records


@pytest.mark.parametrize("max_parallelism", [128, 129])
def test_records_about_as_large_as_the_buffer_are_read(max_parallelism: int) -> None:
    """The first record of a group follows a state id, which needs room as well."""
    for size in range(30):
        groups = {3: [Record(0, b"", bytes(size)), Record(1, b"k", b"")], 5: [Record(2, bytes(size), b"")]}
        data = written_groups(max_parallelism, groups)
        for buffer_size in range(1, 50):
            with small_buffers(buffer_size, 7):
                records = records_read(
                    RecordReader(max_parallelism, STATES), [3, 5], starts_of(data), iter([b"".join(data)])
                )
            assert records == expected_records(groups)


@given(random_groups(), st.integers(1, 60))
def test_start_of_a_group_may_become_known_when_the_group_begins(
    max_parallelism_and_groups: tuple[int, RecordsByGroup], buffer_size: int
) -> None:
    """The start of a compressed key group is known only when the key group before it has been decompressed."""
    max_parallelism, groups = max_parallelism_and_groups
    data = written_groups(max_parallelism, groups)
    starts = np.full(len(data), np.iinfo(np.int64).max, np.int64)

    def chunks() -> Iterator[bytes]:
        for i, (start, group) in enumerate(zip(starts_of(data), data, strict=True)):
            starts[i] = start
            yield from chunks_of(group, [5, 0, 11])

    with small_buffers(buffer_size, 3):
        assert records_read(RecordReader(max_parallelism, STATES), list(groups), starts, chunks()) == expected_records(
            groups
        )


@given(random_groups(), st.integers(1, 5))
def test_framed_sizes_of_records_add_up_to_all_bytes(
    max_parallelism_and_groups: tuple[int, RecordsByGroup], records_at_once: int
) -> None:
    max_parallelism, groups = max_parallelism_and_groups
    data = written_groups(max_parallelism, groups)
    with small_buffers(1 << 16, records_at_once):
        batches = RecordReader(max_parallelism, STATES).read(
            np.array(list(groups), np.int64), starts_of(data), [b"".join(data)]
        )
        sizes = [framed_size(batch, max_parallelism) for batch in batches]
    assert sum(sizes) + ID_SIZE * len(groups) == sum(map(len, data))


@given(random_groups(), st.data(), st.integers(1, 60), st.integers(1, 4))
def test_truncated_groups_give_all_whole_records_and_then_an_error(
    max_parallelism_and_groups: tuple[int, RecordsByGroup], data: st.DataObject, buffer_size: int, records_at_once: int
) -> None:
    max_parallelism, groups = max_parallelism_and_groups
    content = written_groups(max_parallelism, groups)
    size = data.draw(st.integers(0, sum(map(len, content)) - 1))
    read_records: list[tuple[int, int]] = []

    def read() -> None:
        reader, chunks = RecordReader(max_parallelism, STATES), chunks_of(b"".join(content)[:size], [7, 2])
        for batch in reader.read(np.array(list(groups), np.int64), starts_of(content), chunks):
            read_records.extend(zip(batch.groups.tolist(), batch.state_ids.tolist(), strict=True))

    with small_buffers(buffer_size, records_at_once), pytest.raises(SnapshotError) as caught:
        read()
    assert caught.value.what == "a key group ends inside a record"
    assert caught.value.offset is not None
    assert 0 <= caught.value.offset <= size
    whole_records = [
        (group, record.state)
        for start, (group, records) in zip(starts_of(content), groups.items(), strict=True)
        for i, record in enumerate(records)
        if start + len(write_group(group, records[: i + 1], max_parallelism)) <= size
    ]
    assert read_records[: len(whole_records)] == whole_records


@given(random_groups(), st.data(), st.integers(1, 60))
def test_damaged_group_is_refused_or_gives_other_records(
    max_parallelism_and_groups: tuple[int, RecordsByGroup], data: st.DataObject, buffer_size: int
) -> None:
    max_parallelism, groups = max_parallelism_and_groups
    content = written_groups(max_parallelism, groups)
    damaged_data = bytearray(b"".join(content))
    at = data.draw(st.integers(0, len(damaged_data) - 1))
    damaged_data[at] ^= data.draw(st.integers(1, 255))
    with small_buffers(buffer_size, 3):
        try:
            records = records_read(
                RecordReader(max_parallelism, STATES), list(groups), starts_of(content), chunks_of(damaged_data, [9])
            )
        except SnapshotError as error:
            offset = error.offset
        else:
            assert records != expected_records(groups)
            return
    assert offset is not None
    assert 0 <= offset <= len(damaged_data)


A, B = Record(0, b"a", b"1"), Record(1, b"b", b"22")
GROUP_3 = write_group(3, [A, B], 128)
SECOND_OFFSET = len(write_group(3, [A], 128))
"""Offset of the second record. The state id right before it is still part of the first record's bytes."""


def overwritten_group(at: int, data: bytes) -> bytes:
    return GROUP_3[:at] + data + GROUP_3[at + len(data) :]


@pytest.mark.parametrize(
    ("data", "starts", "what", "offset"),
    [
        (overwritten_group(0, b"\0\4"), [0], "a state id that is not in the header", 0),
        (overwritten_group(SECOND_OFFSET - 2, b"\0\4"), [0], "a state id that is not in the header", SECOND_OFFSET - 2),
        (overwritten_group(0, b"\xff\xff"), [0], "a state id that is not in the header", 0),
        (overwritten_group(2, b"\0\0\0\0"), [0], "an impossible length", 0),
        (overwritten_group(2, b"\xff\xff\xff\xff"), [0], "an impossible length", 0),
        (overwritten_group(8, b"\x80\0\0\0"), [0], "an impossible length", 0),
        (overwritten_group(SECOND_OFFSET, b"\x80\0\0\0"), [0], "an impossible length", SECOND_OFFSET),
        (overwritten_group(SECOND_OFFSET + 6, b"\xff\xff\xff\xff"), [0], "an impossible length", SECOND_OFFSET),
        (overwritten_group(6, b"\x84"), [0], "a record of another key group", 0),
        (overwritten_group(SECOND_OFFSET + 4, b"\x80"), [0], "a record of another key group", SECOND_OFFSET),
        (overwritten_group(2, b"\x7f\xff\xff\xff"), [0], "a key group ends inside a record", 0),
        (
            overwritten_group(SECOND_OFFSET + 6, b"\x7f\xff\xff\xff"),
            [0],
            "a key group ends inside a record",
            SECOND_OFFSET,
        ),
        (overwritten_group(SECOND_OFFSET + 4, b"\x03"), [0], "a key group ends inside a record", len(GROUP_3) - 2),
        (GROUP_3 + b"\0", [0], "bytes after the end of a key group", len(GROUP_3)),
        (GROUP_3 + GROUP_3, [0], "bytes after the end of a key group", len(GROUP_3)),
        (GROUP_3 + GROUP_3, [0, len(GROUP_3) + 1], "bytes after the end of a key group", len(GROUP_3)),
        (GROUP_3 + GROUP_3, [0, len(GROUP_3) - 1], "a key group that is longer than its offsets say", len(GROUP_3)),
        (GROUP_3, [0, len(GROUP_3)], "a key group ends inside a record", len(GROUP_3)),
        (b"", [0], "a key group ends inside a record", 0),
    ],
)
@pytest.mark.parametrize("buffer_size", [1, 16, 1000])
def test_broken_framing_is_refused_with_its_offset(
    data: bytes, starts: list[int], what: str, offset: int, buffer_size: int
) -> None:
    with small_buffers(buffer_size, 1), pytest.raises(SnapshotError) as caught:
        records_read(RecordReader(128, 2), [3] * len(starts), np.array(starts, np.int64), chunks_of(data, [3]))
    assert caught.value.what.endswith(what)
    assert caught.value.offset == offset


def test_key_shorter_than_its_key_group_prefix_is_refused() -> None:
    data = struct.pack(">Hi", 0, 1) + b"\x80" + struct.pack(">iH", 0, 0xFFFF)
    assert records_read(RecordReader(128, 1), [0], np.zeros(1, np.int64), iter([data])) == [(0, Record(0, b"", b""))]
    with pytest.raises(SnapshotError, match="an impossible length"):
        records_read(RecordReader(129, 1), [0], np.zeros(1, np.int64), iter([data]))


def test_beginning_of_a_group_gives_its_whole_records() -> None:
    reader = RecordReader(128, 2)
    for size in range(len(GROUP_3) + 1):
        batches = reader.read(np.array([3], np.int64), np.zeros(1, np.int64), [GROUP_3[:size]], is_whole=False)
        count = sum(len(batch) for batch in batches)
        assert count == (size >= SECOND_OFFSET) + (size >= len(GROUP_3))


def test_damaged_length_does_not_grow_the_buffer() -> None:
    data = overwritten_group(8, b"\x7f\xff\xff\xff") + bytes(1000)
    with small_buffers(64, 4):
        reader = RecordReader(128, 2)
        with pytest.raises(SnapshotError, match="ends inside a record"):
            records_read(reader, [3], np.zeros(1, np.int64), chunks_of(data, [50]))
    assert len(reader._buffer) <= 2048


def test_too_large_record_is_refused_with_advice() -> None:
    group = write_group(3, [A, Record(0, b"k", bytes(2000))], 128)
    with (
        small_buffers(64, 4),
        patch.object(module, "LARGEST_RECORD_SIZE", 1000),
        pytest.raises(UnsupportedError) as caught,
    ):
        records_read(RecordReader(128, 2), [3], np.zeros(1, np.int64), chunks_of(group, [50]))
    assert caught.value.offset == len(write_group(3, [A], 128)) - 2
    assert caught.value.expected == "at most 1000 bytes"
    assert "only the parallelism" in str(caught.value.advice)
    with small_buffers(64, 4), patch.object(module, "LARGEST_RECORD_SIZE", 2100):
        assert len(records_read(RecordReader(128, 2), [3], np.zeros(1, np.int64), chunks_of(group, [50]))) == 2


@pytest.mark.parametrize(("max_parallelism", "size"), [(1, 1), (128, 1), (129, 2), (32768, 2)])
def test_prefix_size_matches_the_bytes_of_a_key_group(max_parallelism: int, size: int) -> None:
    assert prefix_size(max_parallelism) == size == len(prefix(max_parallelism - 1, max_parallelism))


@pytest.mark.parametrize(
    "keyed", [k for k in keyed_streams() if k.stream.framing is Framing.CANONICAL and k.stream.parsed]
)
def test_records_of_flink_are_read_as_by_the_slow_twin(keyed: Keyed) -> None:
    header, groups = keyed.stream.parsed, dict(keyed.groups())
    assert header is not None
    operators = keyed.snapshot.operators
    max_parallelism = next(o.max_parallelism for o in operators if keyed.stream in o.keyed)
    if header.compressed:
        groups = {group: FramedDecompressor().feed(data) for group, data in groups.items()}
    data = list(groups.values())
    with small_buffers(100, 5):
        reader = RecordReader(max_parallelism, len(header.states))
        records = records_read(reader, list(groups), starts_of(data), chunks_of(b"".join(data), [70]))
    assert records == [pair for group in data for pair in read_group(group, max_parallelism)]
    assert {group for group, _ in records} == set(groups)


def test_compression_flag_is_read_without_the_rest_of_the_header() -> None:
    for compressed in (False, True):
        data = keyed_header(keyed_state("total"), compressed=compressed)
        assert is_compressed(data) is read_keyed_header(data, "").compressed is compressed
        assert is_compressed(data[:5] + b"what nobody knows") is compressed
    with pytest.raises(SnapshotError):
        is_compressed(data[:4])
