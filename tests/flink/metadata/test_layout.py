"""`_metadata`, byte by byte: what Flink's serializers write for each form, in hex."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.flink.metadata.checkpoint_metadata import MasterState, Subtask, SubtaskState
from rescale.flink.metadata.handles import (
    ChangelogHandle,
    ChangelogStreamHandle,
    ChannelHandle,
    DistributionMode,
    EmptySegmentStream,
    FileMerging,
    FileStream,
    IncrementalHandle,
    InlineStream,
    InMemoryChangelogHandle,
    KeyedHandle,
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
from rescale.flink.metadata.reader import read_keyed_handle, read_metadata
from rescale.flink.metadata.writer import write_keyed_handle, write_metadata, write_operator_handle
from support.metadata_strategies import OPERATOR_ID, file, operator

HEADER = "4960672d 00000004 0000000000000001 00000000"


def test_stateless_operator_has_the_bytes_of_flink() -> None:
    subtasks = tuple(Subtask(index, False, SubtaskState()) for index in range(2))
    state = "00000000 00000000 00 00 00000000 00000000"
    expected = f"{HEADER} 00000001 {OPERATOR_ID} 00000002 00000080 00 00000002 00000000 {state} 00000001 {state}"
    data = write_metadata(file(operator(subtasks=subtasks)))
    assert data == bytes.fromhex(expected) + savepoint_properties(is_canonical=True)


def test_version_2_has_the_bytes_of_flink() -> None:
    state = "ffffffffffffffff 00000000 00000000 00000000 00 00"
    expected = (
        f"4960672d 00000002 0000000000000001 00000000 00000001 {OPERATOR_ID} 00000002 00000080 00000001"
        f"00000001 00000000 {state}"
    )
    metadata = file(operator(subtasks=(Subtask(0, False, SubtaskState()),)), version=2)
    assert write_metadata(metadata) == bytes.fromhex(expected)


def test_names_and_finished_subtasks_have_the_bytes_of_flink() -> None:
    with_finished_subtask = operator(name="map", uid="m", subtasks=(Subtask(1, True, None),))
    finished_operator = operator(operator_id="00" * 16, fully_finished=True)
    expected = (
        "4960672d 00000005 0000000000000001 00000000 00000002"
        f"0003 6d6170 0001 6d {OPERATOR_ID} 00000002 00000080 00 00000001 fffffffe"
        f"0000 0000 {'00' * 16} 00000002 00000080 00 ffffffff"
    )
    metadata = file(with_finished_subtask, finished_operator, version=5)
    assert write_metadata(metadata) == bytes.fromhex(expected) + metadata.properties
    assert read_metadata(write_metadata(metadata), "_metadata") == metadata


def test_operator_handle_has_the_bytes_of_flink() -> None:
    handle = OperatorHandle(
        (
            OperatorStateOffsets("u", DistributionMode.UNION, (0x415,)),
            OperatorStateOffsets("b", DistributionMode.SPLIT_DISTRIBUTE, ()),
        ),
        RelativeFileStream("8566", 0x467),
    )
    expected = "04 00000002 0001 75 01 00000001 0000000000000415 0001 62 00 0000000006 0004 38353636 0000000000000467"
    assert write_operator_handle(handle) == bytes.fromhex(expected)


EMPTY = EmptySegmentStream()


@pytest.mark.parametrize(
    ("handle", "expected"),
    [
        (
            KeyGroupsHandle(12, 5, (0, 3521), FileStream("s3://b/k", 7), "id"),
            "0c 00000005 00000002 0000000000000000 0000000000000dc102 0000000000000007 0008 73333a2f2f622f6b 0002 6964",
        ),
        (KeyGroupsHandle(3, 5, (-1,), EMPTY), "03 00000005 00000001 ffffffffffffffff 10"),
        (
            KeyGroupsHandle(7, 1, (), InlineStream("n", b"ab")),
            "07 00000001 00000000 01 0001 6e 00000002 6162",
        ),
        (
            KeyGroupsHandle(7, 1, (), KeyGroupsStream(2, (9,), RelativeFileStream("p", 8))),
            "07 00000001 00000000 03 00000002 00000001 0000000000000009 06 0001 70 0000000000000008",
        ),
        (
            KeyGroupsHandle(7, 1, (), SegmentStream("p", 2, 3, 1, "f")),
            "07 00000001 00000000 0f 0000000000000002 0000000000000003 00000001 0001 70 0001 66",
        ),
        (
            IncrementalHandle(5, 6, "u", 1, 2, None, EMPTY, (RocksdbFile("s", EMPTY),), (), None),
            "05 0000000000000006 0001 75 00000001 00000002 10 00000001 0001 73 10 00000000",
        ),
        (
            IncrementalHandle(11, 6, "u", 1, 2, 7, EMPTY, (), (RocksdbFile("p", EMPTY),), "id"),
            "0b 0000000000000006 0001 75 00000001 00000002 0000000000000007 1000000000 00000001 0001 70 10 0002 6964",
        ),
        (
            InMemoryChangelogHandle(1, 2, 3, 4, (StateChange(-1, b"a"),), "id"),
            "09 00000001 00000002 0000000000000003 0000000000000004 00000001 ffffffff 00000001 61 0002 6964",
        ),
        (
            ChangelogStreamHandle(10, 1, 2, ((3, EMPTY),), 4, 5, "id", None),
            "0a 00000001 00000002 00000001 0000000000000003 10 0000000000000004 0000000000000005 0002 6964",
        ),
        (
            ChangelogStreamHandle(13, 1, 2, (), 4, 5, "id", "fs"),
            "0d 00000001 00000002 00000000 0000000000000004 0000000000000005 0002 6964 0002 6673",
        ),
        (
            ChangelogHandle(8, 1, 2, 3, (KeyGroupsHandle(3, 0, (), EMPTY),), (), 4, None, "id"),
            "08 00000001 00000002 0000000000000003 00000001 03 00000000 00000000 10 000000000000000000000004 0002 6964",
        ),
        (
            ChangelogHandle(14, 1, 2, 3, (), (InMemoryChangelogHandle(0, 0, 0, 0, (), ""),), 4, 5, "id"),
            "0e 00000001 00000002 0000000000000003 00000000 00000001"
            "09 00000000 00000000 0000000000000000 0000000000000000 00000000 0000"
            "0000000000000004 0000000000000005 0002 6964",
        ),
    ],
)
def test_keyed_handles_have_the_bytes_of_flink(handle: KeyedHandle, expected: str) -> None:
    assert write_keyed_handle(handle) == bytes.fromhex(expected)
    assert read_keyed_handle(bytes.fromhex(expected)) == handle


def test_file_merging_handle_has_the_bytes_of_flink() -> None:
    handle = OperatorHandle((), EMPTY, FileMerging("t", "s", is_empty=True))
    assert write_operator_handle(handle) == bytes.fromhex("11 00000000 0001 74 0001 73 01 10")


SINGLE_CHANNEL = SingleChannelHandle(subtask=1, group=2, channel=3, offsets=(4,), state_size=5, stream=EMPTY)
MERGED_CHANNEL = MergedChannelHandle(subtask=1, state_size=5, stream=EMPTY, packed_offsets=b"pk")
SINGLE_BYTES = "00000001 00000002 00000003 00000001 0000000000000004 0000000000000005 10"
MERGED_BYTES = "00000001 0000000000000005 10 00000002 706b"


@pytest.mark.parametrize(
    ("version", "channels", "expected"),
    [
        (3, (SINGLE_CHANNEL,), f"00000001 {SINGLE_BYTES} 00000001 {SINGLE_BYTES}"),
        (
            6,
            (SINGLE_CHANNEL, MERGED_CHANNEL),
            f"00000002 01 {SINGLE_BYTES} 03 {MERGED_BYTES} 00000002 02 {SINGLE_BYTES} 04 {MERGED_BYTES}",
        ),
    ],
)
def test_channel_handles_have_the_bytes_of_flink(
    version: int, channels: tuple[ChannelHandle, ...], expected: str
) -> None:
    state = SubtaskState(input_channels=channels, output_channels=channels)
    metadata = file(operator(subtasks=(Subtask(0, False, state),)), version=version)
    data = write_metadata(metadata)
    assert data.removesuffix(metadata.properties).endswith(bytes.fromhex(f"00000000 00 00 {expected}"))
    assert read_metadata(data, "_metadata") == metadata


def test_master_state_has_the_bytes_of_flink() -> None:
    metadata = replace(file(version=3), masters=(MasterState(1, "m", b"xy"),))
    expected = "4960672d 00000003 0000000000000001 00000001 c96b1696 0000000d 00000001 0001 6d 00000002 7879 00000000"
    assert write_metadata(metadata) == bytes.fromhex(expected)
    assert read_metadata(bytes.fromhex(expected), "_metadata") == metadata
