"""`_metadata`: written values are read back, and wrong bytes are refused."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rescale.flink.metadata.checkpoint_metadata import RELEASES_BY_VERSION, Metadata, Subtask, SubtaskState
from rescale.flink.metadata.handles import (
    EmptySegmentStream,
    HandleTag,
    InlineStream,
    KeyGroupsHandle,
    KeyGroupsStream,
    MergedChannelHandle,
    RelativeFileStream,
    SegmentStream,
    SingleChannelHandle,
)
from rescale.flink.metadata.properties import SnapshotType, savepoint_properties, snapshot_type, stopped_the_job
from rescale.flink.metadata.reader import read_keyed_handle, read_metadata, read_operator_handle
from rescale.flink.metadata.writer import write_keyed_handle, write_metadata, write_operator_handle
from rescale.text.errors import SnapshotError, UnsupportedError
from support import metadata_strategies as strategies
from support.metadata_strategies import OPERATOR_ID, file, operator


@given(strategies.metadata())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_random_metadata_is_read_back(metadata: Metadata) -> None:
    data = write_metadata(metadata)
    assert read_metadata(data, "_metadata") == metadata
    assert write_metadata(read_metadata(data, "_metadata")) == data


@pytest.mark.parametrize("version", RELEASES_BY_VERSION)
def test_every_version_has_a_round_trip(version: int) -> None:
    """Hypothesis may leave out a version; this test does not."""
    metadata = file(operator(subtasks=(Subtask(1, False, SubtaskState()),)), version=version)
    assert read_metadata(write_metadata(metadata), "_metadata") == metadata


@given(strategies.keyed_handles | st.none())
def test_keyed_handle_is_written_and_read_alone(handle: object) -> None:
    assert read_keyed_handle(write_keyed_handle(handle)) == handle


@given(strategies.operator_handles | st.none())
def test_operator_handle_is_written_and_read_alone(handle: object) -> None:
    assert read_operator_handle(write_operator_handle(handle)) == handle


def test_inline_stream_has_the_position_of_its_bytes() -> None:
    handle = KeyGroupsHandle(7, 0, (0,), InlineStream("name", b"some state"))
    data = write_metadata(file(operator(subtasks=(Subtask(0, False, SubtaskState(managed_keyed=handle)),))))
    stream = read_metadata(data, "_metadata").operators[0].subtasks[0].state.managed_keyed.stream
    assert data[stream.position : stream.position + len(stream.data)] == b"some state"


def test_order_of_operators_and_subtasks_is_kept() -> None:
    ids = ["ff" * 16, "00" * 16, "aa" * 16]
    subtasks = tuple(Subtask(index, True, None) for index in (3, 0, 2))
    operators = tuple(operator(operator_id=name, parallelism=4, subtasks=subtasks) for name in ids)
    metadata = read_metadata(write_metadata(file(*operators)), "_metadata")
    assert [state.operator_id for state in metadata.operators] == ids
    assert [subtask.index for subtask in metadata.operators[0].subtasks] == [3, 0, 2]


def test_operator_without_subtasks_keeps_its_finished_flag() -> None:
    for fully_finished in (False, True):
        metadata = file(operator(fully_finished=fully_finished))
        assert read_metadata(write_metadata(metadata), "_metadata") == metadata


def test_error_names_the_operator_and_the_offset() -> None:
    data = write_metadata(file(operator(parallelism=129)))
    with pytest.raises(SnapshotError) as raised:
        read_metadata(data, "s3://b/_metadata")
    at = data.index(bytes.fromhex("0000008100000080"))
    assert (raised.value.path, raised.value.offset) == ("s3://b/_metadata", at)
    assert raised.value.operator == OPERATOR_ID


def metadata_with(old: str, new: str, metadata: Metadata) -> bytes:
    """Return the file with `new` in the only place that has the bytes `old` (both in hex)."""
    data, old_bytes = write_metadata(metadata), bytes.fromhex(old)
    assert data.count(old_bytes) == 1
    return data.replace(old_bytes, bytes.fromhex(new))


STATELESS_OPERATOR = operator(subtasks=(Subtask(0, False, SubtaskState()),))
METADATA_WITH_COORDINATOR = file(operator(coordinator=InlineStream("c", b"x")))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "ends too early"),
        (b"PK\x03\x04 and more", "not a metadata file"),
        (bytes.fromhex("4960672d 00000000"), "not a metadata version"),
        (bytes.fromhex("4960672d ffffffff"), "not a metadata version"),
        (write_metadata(file(checkpoint_id=-1)), "negative checkpoint id"),
        (bytes.fromhex("4960672d 00000003 0000000000000001 ffffffff"), "an impossible count"),
        (bytes.fromhex("4960672d 00000003 0000000000000001 00000000 ffffffff"), "an impossible count"),
        (write_metadata(file(operator(parallelism=0))), "an impossible parallelism"),
        (write_metadata(file(operator(max_parallelism=1))), "an impossible parallelism"),
        (write_metadata(file(operator(max_parallelism=1 << 16))), "an impossible parallelism"),
        (write_metadata(file(operator(), operator())), "an operator is listed twice"),
        (write_metadata(file(operator(subtasks=STATELESS_OPERATOR.subtasks * 2))), "a subtask is listed twice"),
        (write_metadata(file(operator(subtasks=(Subtask(2, True, None),)))), "a subtask index out of bounds"),
        (write_metadata(file(operator(subtasks=(Subtask(2, False, SubtaskState()),)))), "out of bounds"),
        (metadata_with("00000080 01 0001 63 00000001 78", "00000080 10", METADATA_WITH_COORDINATOR), "not inline"),
        (write_metadata(file(operator(coordinator=InlineStream("c", b""), fully_finished=True))), "finished"),
        (write_metadata(file(version=3)) + b"\0", "bytes after the end"),
        (write_metadata(file(version=4)) + b"\0", "bytes after the end"),
        (write_metadata(replace(file(), properties=b"\xac\xed\x00\x05t\x00\x00")), "not the properties"),
        (metadata_with("0000000000000002020008", "0000000000000003020008", file()), "not the properties"),
        (write_metadata(replace(file(), properties=b"\0\0\0\0")), "not a Java object stream"),
    ],
)
def test_damaged_metadata_is_refused_with_its_offset(data: bytes, what: str) -> None:
    with pytest.raises(SnapshotError, match=what) as raised:
        read_metadata(data, "_metadata")
    assert raised.value.offset is not None


HEX_BEFORE_MASTER = "4960672d 00000003 0000000000000001 00000001"


@pytest.mark.parametrize(
    ("master", "what"),
    [
        ("c96b1697 0000000b 00000001 0001 6d 00000000", "not a master state"),
        ("c96b1696 00000000 00000001 0001 6d 00000000", "impossible size"),
        ("c96b1696 ffffffff 00000001 0001 6d 00000000", "impossible size"),
        ("c96b1696 0000000a 00000001 0001 6d 00000000", "ends too early"),
        ("c96b1696 0000000c 00000001 0001 6d 00000000 ff", "bytes after the end"),
        ("c96b1696 0000000b 00000001 0001 6d ffffffff", "ends too early"),
    ],
)
def test_malformed_master_state_is_refused(master: str, what: str) -> None:
    with pytest.raises(SnapshotError, match=what):
        read_metadata(bytes.fromhex(f"{HEX_BEFORE_MASTER} {master} 00000000"), "_metadata")


@pytest.mark.parametrize(
    ("version", "message"), [(1, "Flink 1.1"), (7, "unknown metadata version"), (1 << 30, "unknown metadata version")]
)
def test_unknown_version_is_refused_with_the_known_ones(version: int, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message) as raised:
        read_metadata(bytes.fromhex("4960672d") + struct.pack(">i", version), "_metadata")
    assert "1.16 to 1.20" in raised.value.expected
    assert raised.value.advice


@pytest.mark.parametrize(
    ("handle", "what"),
    [
        ("02", "not a tag"),
        ("0f", "not a tag"),
        ("ff", "not a tag"),
        ("07 00000000 00000000 00", "without a stream"),
        ("07 00000000 00000000 04", "not a tag"),
        ("07 ffffffff 00000001", "range of key groups"),
        ("07 00000000 00008001", "range of key groups"),
        ("07 7fffffff 00000001", "range of key groups"),
        ("07 00000000 ffffffff", "range of key groups"),
        ("07 00000000 00000001", "ends too early"),
        ("07 00000000 00000000 02 fffffffffffffffe 0001 78", "file size"),
        ("07 00000000 00000000 02 0000000000000001 0000", "empty path"),
        ("07 00000000 00000000 06 0000", "empty path"),
        ("07 00000000 00000000 01 0001 78 ffffffff", "ends too early"),
        ("07 00000000 00000000 0f 0000000000000000 0000000000000001 00000002", "scope"),
        ("07 00000000 00000000 0f ffffffffffffffff 0000000000000001 00000000", "segment"),
        ("07 00000000 00000000 10 00", "after the end"),
        ("08 00000000 00000000 0000000000000000 00000001 00 00000000", "null handle in the base"),
        (
            "08 00000000 00000000 0000000000000000 00000000 00000001 07 00000000 00000000 10",
            "no log of changes",
        ),
        ("08 00000000 00000000 0000000000000000 00000000 00000001 00", "no log of changes"),
        ("09 00000000 00000000 ffffffffffffffff 0000000000000000 00000000 0000", "sequence number"),
        ("09 00000000 00000000 0000000000000000 0000000000000000 00000001 fffffffe 00000000", "key group"),
    ],
)
def test_damaged_keyed_handle_is_refused(handle: str, what: str) -> None:
    with pytest.raises(SnapshotError, match=what):
        read_keyed_handle(bytes.fromhex(handle), "handle")


@pytest.mark.parametrize(
    ("handle", "what"),
    [
        ("03", "not a tag"),
        ("04 00000001 0001 61 03 00000000 10", "distribution mode"),
        ("04 00000001 0001 61 ff 00000000 10", "distribution mode"),
        ("04 00000002 0001 61 00 00000000 0001 61 01 00000000 10", "listed twice"),
        ("04 00000000 00", "without a stream"),
        ("11 00000000 0001 61 0001 62 02 10", "not a boolean"),
        ("11 00000000 0001 61 0001 62 01 06 0001 63 0000000000000000", "not a segment"),
    ],
)
def test_damaged_operator_handle_is_refused(handle: str, what: str) -> None:
    with pytest.raises(SnapshotError, match=what):
        read_operator_handle(bytes.fromhex(handle), "handle")


def test_ambiguous_encodings_that_we_would_write_differently_are_refused() -> None:
    announced_twice = metadata_with(
        "00000001 00000000 00000000", "00000001 00000000 00000002", file(STATELESS_OPERATOR)
    )
    announced_null = metadata_with(
        "00000001 00000000 00000000 00000000 00", "00000001 00000000 00000001 00 00000000 00", file(STATELESS_OPERATOR)
    )
    minus_two_subtasks = metadata_with("00000080 00 00000000", "00000080 00 fffffffe", file(operator()))
    for data in (announced_twice, announced_null, minus_two_subtasks):
        with pytest.raises(SnapshotError):
            read_metadata(data, "_metadata")


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("00000080 00000001", "00000080 00000002", SnapshotError),
        ("ffffffffffffffff 00000000", "0000000000000000 00000000", SnapshotError),
        ("ffffffffffffffff 00000000", "ffffffffffffffff 00000001", UnsupportedError),
        ("ffffffffffffffff 00000000", "ffffffffffffffff ffffffff", SnapshotError),
        ("00000000 ffffffffffffffff", "ffffffff ffffffffffffffff", SnapshotError),
    ],
)
def test_version_2_with_other_values_in_constant_fields_is_refused(old: str, new: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        read_metadata(metadata_with(old, new, file(STATELESS_OPERATOR, version=2)), "_metadata")


def test_channel_state_of_the_other_direction_is_refused() -> None:
    state = SubtaskState(input_channels=(SingleChannelHandle(0, 0, 0, (), 0, EmptySegmentStream()),))
    metadata = file(operator(subtasks=(Subtask(0, False, state),)), version=6)
    zeros = "00" * 24
    data = metadata_with(f"00000001 01 {zeros} 10", f"00000001 02 {zeros} 10", metadata)
    with pytest.raises(SnapshotError, match="of this direction"):
        read_metadata(data, "_metadata")


def nested_streams(levels: int) -> KeyGroupsHandle:
    stream = RelativeFileStream("x", 1)
    for _ in range(levels - 2):
        stream = KeyGroupsStream(0, (), stream)
    return KeyGroupsHandle(7, 0, (), stream)


def test_nesting_of_handles_is_limited() -> None:
    handle = nested_streams(16)
    assert read_keyed_handle(write_keyed_handle(handle)) == handle
    with pytest.raises(SnapshotError, match="nested too deep"):
        read_keyed_handle(write_keyed_handle(nested_streams(17)))
    changelog = bytes.fromhex("0e 00000000 00000000 0000000000000000 00000001")
    with pytest.raises(SnapshotError, match="nested too deep"):
        read_keyed_handle(changelog * 100_000)


@pytest.mark.parametrize(
    "metadata",
    [
        file(operator(coordinator=InlineStream("c", b"")), version=2),
        file(operator(fully_finished=True), version=2),
        file(operator(subtasks=(Subtask(0, True, None),)), version=2),
        file(operator(uid="u"), version=4),
        file(operator(name="n"), version=3),
        replace(file(version=3), properties=b"x"),
        replace(file(version=4), properties=b""),
        replace(file(), version=7),
        file(
            operator(
                subtasks=(
                    Subtask(
                        0,
                        False,
                        SubtaskState(input_channels=(MergedChannelHandle(0, 0, InlineStream("", b""), b""),)),
                    ),
                )
            ),
            version=5,
        ),
    ],
)
def test_metadata_that_its_version_cannot_express_is_not_written(metadata: Metadata) -> None:
    with pytest.raises(UnsupportedError):
        write_metadata(metadata)


def test_handle_with_fields_of_another_tag_is_refused() -> None:
    with pytest.raises(ValueError, match="tag 12"):
        KeyGroupsHandle(HandleTag.KEY_GROUPS_V2, 0, (), SegmentStream("p", 0, 0, 0, ""))
    with pytest.raises(ValueError, match="tag 7"):
        KeyGroupsHandle(HandleTag.SAVEPOINT_KEY_GROUPS, 0, (), SegmentStream("p", 0, 0, 0, ""), "id")
    with pytest.raises(ValueError, match="tag 5"):
        KeyGroupsHandle(HandleTag.INCREMENTAL, 0, (), SegmentStream("p", 0, 0, 0, ""))


def test_savepoint_properties_have_the_type_asked_for() -> None:
    assert snapshot_type(savepoint_properties(is_canonical=True)) is SnapshotType.CANONICAL_SAVEPOINT
    assert snapshot_type(savepoint_properties(is_canonical=False)) is SnapshotType.NATIVE_SAVEPOINT
    assert snapshot_type(b"") is SnapshotType.UNKNOWN
    assert len(savepoint_properties(is_canonical=True)) - len(savepoint_properties(is_canonical=False)) == 3


def test_type_of_null_properties_is_unknown() -> None:
    """The State Processor API writes null as properties."""
    metadata = replace(file(), properties=b"\xac\xed\x00\x05p")
    assert read_metadata(write_metadata(metadata), "_metadata") == metadata
    assert snapshot_type(metadata.properties) is SnapshotType.UNKNOWN
    assert not stopped_the_job(metadata.properties)


def test_unknown_snapshot_type_is_read_as_unknown() -> None:
    canonical = savepoint_properties(is_canonical=True)
    assert snapshot_type(canonical.replace(b"\x00\x09CANONICAL", b"\x00\x09SOMETHING")) is SnapshotType.UNKNOWN
    other = canonical.replace(b"checkpoint.SavepointType\xa0", b"checkpoint.SomethingNew_\xa0")
    assert snapshot_type(other) is SnapshotType.UNKNOWN
