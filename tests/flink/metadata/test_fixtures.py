"""`_metadata` files that Flink wrote: read, written, and the same bytes again."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.table import FIXTURES as TABLE
from rescale.flink.metadata.checkpoint_metadata import FIRST_VERSION_WITH_PROPERTIES
from rescale.flink.metadata.properties import SnapshotType, savepoint_properties, snapshot_type
from rescale.flink.metadata.reader import read_keyed_handle, read_metadata, read_operator_handle
from rescale.flink.metadata.writer import write_keyed_handle, write_metadata, write_operator_handle
from rescale.text.errors import SnapshotError
from support.snapshots import FIXTURES

FILES = sorted(FIXTURES.glob("**/_metadata"))
assert FILES
BOOTSTRAPPED_NAMES = {fixture.name for fixture in TABLE if fixture.processor}
"""Fixtures of the State Processor API, which wrote null as their properties."""
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.parent.relative_to(FIXTURES)))


@every_file
def test_metadata_of_flink_is_written_back_byte_for_byte(path: Path) -> None:
    data = path.read_bytes()
    assert write_metadata(read_metadata(data, str(path))) == data


@every_file
def test_handles_of_flink_are_written_and_read_alone(path: Path) -> None:
    for operator in read_metadata(path.read_bytes(), str(path)).operators:
        for subtask in operator.subtasks:
            if subtask.state is None:
                continue
            for keyed_handle in (subtask.state.managed_keyed, subtask.state.raw_keyed):
                assert read_keyed_handle(write_keyed_handle(keyed_handle)) == keyed_handle
            for handle in (subtask.state.managed_operator, subtask.state.raw_operator):
                assert read_operator_handle(write_operator_handle(handle)) == handle


@every_file
def test_properties_name_the_snapshot_type(path: Path) -> None:
    metadata = read_metadata(path.read_bytes(), str(path))
    type_of_snapshot = snapshot_type(metadata.properties)
    if metadata.version < FIRST_VERSION_WITH_PROPERTIES or path.parent.parent.name in BOOTSTRAPPED_NAMES:
        assert type_of_snapshot is SnapshotType.UNKNOWN
    elif path.parent.name.startswith("chk-"):
        assert type_of_snapshot is SnapshotType.CHECKPOINT
    else:
        assert type_of_snapshot in (SnapshotType.CANONICAL_SAVEPOINT, SnapshotType.NATIVE_SAVEPOINT)


@every_file
def test_our_savepoint_properties_equal_those_of_flink(path: Path) -> None:
    """This holds for savepoints after which the job went on; others have another `PostCheckpointAction`."""
    properties = read_metadata(path.read_bytes(), str(path)).properties
    if properties.endswith(b"\x00\x04NONE"):
        canonical = snapshot_type(properties) is SnapshotType.CANONICAL_SAVEPOINT
        assert properties == savepoint_properties(canonical)


@every_file
def test_truncated_metadata_is_refused(path: Path) -> None:
    data = path.read_bytes()
    for end in range(0, len(data), max(1, len(data) // 100)):
        with pytest.raises(SnapshotError):
            read_metadata(data[:end], str(path))
