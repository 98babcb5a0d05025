"""A damaged `_metadata` raises a `RescaleError`, or becomes a value that is written as the same damaged bytes."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from rescale.flink.metadata.checkpoint_metadata import (
    FIRST_VERSION_WITH_COORDINATORS,
    FIRST_VERSION_WITH_MERGED_CHANNELS,
    FIRST_VERSION_WITH_NAMES,
    FIRST_VERSION_WITH_PROPERTIES,
    RELEASES_BY_VERSION,
    MasterState,
    Metadata,
    OperatorState,
    Subtask,
    SubtaskState,
)
from rescale.flink.metadata.handles import (
    ChangelogHandle,
    ChangelogStreamHandle,
    DistributionMode,
    EmptySegmentStream,
    FileMerging,
    FileStream,
    HandleTag,
    IncrementalHandle,
    InlineStream,
    InMemoryChangelogHandle,
    KeyGroupsHandle,
    KeyGroupsStream,
    MergedChannelHandle,
    OperatorHandle,
    OperatorStateOffsets,
    RelativeFileStream,
    RocksdbFile,
    SegmentStream,
    SingleChannelHandle,
    StateChange,
)
from rescale.flink.metadata.properties import savepoint_properties
from rescale.flink.metadata.reader import read_metadata
from rescale.flink.metadata.writer import write_metadata
from rescale.text.errors import RescaleError, SnapshotError, UnsupportedError
from support.slow import slow, slow_but

STATES = (
    OperatorStateOffsets("list", DistributionMode.SPLIT_DISTRIBUTE, (21, 29)),
    OperatorStateOffsets("union", DistributionMode.UNION, ()),
)
CHANGES = ChangelogStreamHandle(
    HandleTag.CHANGELOG_STREAM_V2, 0, 2, ((1, FileStream("s3://b/d", 9)),), 9, 9, "id", "filesystem"
)
IN_MEMORY = InMemoryChangelogHandle(0, 2, 1, 2, (StateChange(-1, b"ab"), StateChange(1, b"")), "id")
SEGMENT = SegmentStream("s3://b/s", 5, 8, 1, "file")
KEYED_HANDLES = (
    KeyGroupsHandle(7, 0, (0, 77), RelativeFileStream("chk", 99)),
    KeyGroupsHandle(12, 2, (-1,), KeyGroupsStream(0, (3,), InlineStream("n", b"xyz")), "id"),
    IncrementalHandle(11, 4, "uuid", 0, 2, 50, SEGMENT, (RocksdbFile("7.sst", FileStream("s3://b/7", 4)),), (), "id"),
    ChangelogHandle(14, 0, 2, 50, (KeyGroupsHandle(3, 0, (7,), EmptySegmentStream()),), (CHANGES,), 1, 2, "i"),
    ChangelogHandle(8, 0, 2, 50, (), (IN_MEMORY,), 1, None, "id"),
)
SINGLE_CHANNEL = SingleChannelHandle(0, 1, 2, (4, 5), 10, RelativeFileStream("ch", 10))
MERGED_CHANNEL = MergedChannelHandle(0, 10, RelativeFileStream("ch", 10), b"packed")


NEWEST = max(RELEASES_BY_VERSION)


def sample_metadata(version: int) -> Metadata:
    """Return a small file that contains each thing that this version can contain."""
    is_since_v3 = version >= FIRST_VERSION_WITH_COORDINATORS
    merged_channels = (MERGED_CHANNEL,) if version >= FIRST_VERSION_WITH_MERGED_CHANNELS else ()
    channels = (SINGLE_CHANNEL, *merged_channels) if is_since_v3 else ()
    name_and_uid = ("map", "uid-é") if version >= FIRST_VERSION_WITH_NAMES else ("", "")
    subtasks = [
        Subtask(
            index,
            False,
            SubtaskState(
                managed_operator=OperatorHandle(STATES, InlineStream("h", b"state")) if index == 0 else None,
                raw_operator=OperatorHandle((), SEGMENT, FileMerging("t", "s", False)) if index == 1 else None,
                managed_keyed=handle,
                input_channels=channels if index == 2 else (),
                output_channels=channels if index == 3 else (),
            ),
        )
        for index, handle in enumerate(KEYED_HANDLES)
    ]
    finished_subtasks = (Subtask(7, True, None),) if is_since_v3 else ()
    coordinator = InlineStream("c", b"enumerator") if is_since_v3 else None
    operators = [
        OperatorState("0f" * 16, *name_and_uid, 8, 16, coordinator, (*subtasks, *finished_subtasks)),
        OperatorState("f0" * 16, "", "", 1, 1, None, (), fully_finished=is_since_v3),
    ]
    properties = savepoint_properties(is_canonical=True) if version >= FIRST_VERSION_WITH_PROPERTIES else b""
    return Metadata(version, 12, (MasterState(1, "hook", b"payload"),), tuple(operators), properties)


def read_or_error(data: bytes) -> Metadata | RescaleError:
    try:
        return read_metadata(data, "_metadata")
    except (SnapshotError, UnsupportedError) as error:
        return error


def assert_refused_or_kept(data: bytes) -> None:
    outcome = read_or_error(data)
    if isinstance(outcome, Metadata):
        assert write_metadata(outcome) == data
    else:
        assert outcome.path == "_metadata"
        assert outcome.offset is not None
        assert 0 <= outcome.offset <= len(data)


@pytest.mark.parametrize("version", RELEASES_BY_VERSION)
def test_sample_is_read_back(version: int) -> None:
    assert read_metadata(write_metadata(sample_metadata(version)), "_metadata") == sample_metadata(version)


@pytest.mark.parametrize("version", RELEASES_BY_VERSION)
def test_metadata_truncated_at_any_byte_is_refused(version: int) -> None:
    data = write_metadata(sample_metadata(version))
    for end in range(len(data)):
        with pytest.raises(SnapshotError):
            read_metadata(data[:end], "_metadata")


@pytest.mark.parametrize("flips_per_byte", [1, slow(3)])
@pytest.mark.parametrize("version", slow_but(NEWEST.__eq__, RELEASES_BY_VERSION))
def test_metadata_with_any_byte_flipped_is_refused_or_kept(version: int, flips_per_byte: int) -> None:
    """Each byte is flipped in one of three ways; in slow tests, in all three."""
    data, flips = write_metadata(sample_metadata(version)), (0x01, 0x80, 0xFF)
    for at in range(len(data)):
        for flip in (flips[(at + number) % 3] for number in range(flips_per_byte)):
            assert_refused_or_kept(data[:at] + bytes((data[at] ^ flip,)) + data[at + 1 :])


@pytest.mark.parametrize("version", slow_but(NEWEST.__eq__, [2, 4, NEWEST]))
@pytest.mark.parametrize("planted_length", [(1 << 31) - 1, slow(-1), slow(1 << 24), slow(-(1 << 31))])
@pytest.mark.parametrize("step", [3, slow(1)])
def test_planted_lengths_are_refused_in_bounded_memory(version: int, planted_length: int, step: int) -> None:
    data = write_metadata(sample_metadata(version))
    tracemalloc.start()
    try:
        for at in range(0, len(data) - 3, step):
            assert_refused_or_kept(data[:at] + struct.pack(">i", planted_length) + data[at + 4 :])
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("version", slow_but(NEWEST.__eq__, [2, 4, NEWEST]))
def test_metadata_with_a_lost_or_doubled_byte_is_refused_or_kept(version: int) -> None:
    data = write_metadata(sample_metadata(version))
    for at in range(len(data)):
        assert_refused_or_kept(data[:at] + data[at + 1 :])
        assert_refused_or_kept(data[: at + 1] + data[at:])
