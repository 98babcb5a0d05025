"""Reader of `_metadata`: magic, version, then the body of that version (`MetadataV2Serializer` to V6).

The reader checks everything that Flink checks when it opens a snapshot. The reader also refuses what Flink ignores and
the writer would lose: bytes after the end, and an operator that is listed twice. The reader checks counts against the
remaining bytes, so the size of the file limits the memory that the reader takes.
"""

from __future__ import annotations

from rescale.flink.encoding.binary import ByteReader
from rescale.flink.metadata.checkpoint_metadata import (
    FIRST_VERSION_WITH_PROPERTIES,
    MAGIC,
    MASTER_STATE_MAGIC,
    RELEASES_BY_VERSION,
    MasterState,
    Metadata,
)
from rescale.flink.metadata.handles import KeyedHandle, OperatorHandle
from rescale.flink.metadata.keyed_handles import read_keyed
from rescale.flink.metadata.operator_handles import read_operator
from rescale.flink.metadata.operator_states import read_operator_states
from rescale.flink.metadata.properties import read_properties
from rescale.text.errors import UnsupportedError
from rescale.text.units import counted


def read_metadata(data: bytes, path: str) -> Metadata:
    """Return the content of the `_metadata` file `data`; `path` names the file in errors.

    Raises `SnapshotError` with the offset if the file is damaged, and `UnsupportedError` if its version or some of its
    content is valid, but not supported.
    """
    reader = ByteReader(data, path)
    version = _read_version(reader)
    metadata = Metadata(
        version,
        checkpoint_id=reader.non_negative(reader.i64, "checkpoint id"),
        masters=tuple(_read_master(reader) for _ in range(reader.count(item_size=18))),
        operators=read_operator_states(reader, version),
        properties=read_properties(reader) if version >= FIRST_VERSION_WITH_PROPERTIES else b"",
    )
    _check_end(reader)
    return metadata


def read_keyed_handle(data: bytes, path: str = "") -> KeyedHandle | None:
    """Return the keyed handle that `write_keyed_handle` wrote. Raises `SnapshotError` if it is damaged."""
    reader = ByteReader(data, path)
    handle = read_keyed(reader)
    _check_end(reader)
    return handle


def read_operator_handle(data: bytes, path: str = "") -> OperatorHandle | None:
    """Return the operator handle that `write_operator_handle` wrote. Raises `SnapshotError` if it is damaged."""
    reader = ByteReader(data, path)
    handle = read_operator(reader)
    _check_end(reader)
    return handle


def _read_version(reader: ByteReader) -> int:
    magic = reader.raw(len(MAGIC))
    if magic != MAGIC:
        error = reader.error("not a metadata file of Flink", at=0, expected=MAGIC.hex(), found=magic.hex())
        raise error.located(advice="name the directory of a snapshot, or the file _metadata in it")
    at = reader.position
    version = reader.i32()
    if version in RELEASES_BY_VERSION:
        return version
    known_versions = ", ".join(f"{number} ({releases})" for number, releases in RELEASES_BY_VERSION.items())
    if version < 1:
        raise reader.error("not a metadata version", at=at, expected=known_versions, found=version)
    raise UnsupportedError(
        "metadata of Flink 1.1 or 1.2 is not supported" if version == 1 else "unknown metadata version",
        path=reader.path,
        offset=at,
        expected=known_versions,
        found=version,
        advice="take a savepoint with one of the Flink releases named above",
    )


def _read_master(reader: ByteReader) -> MasterState:
    at = reader.position
    magic = reader.raw(len(MASTER_STATE_MAGIC))
    if magic != MASTER_STATE_MAGIC:
        expected_magic = MASTER_STATE_MAGIC.hex()
        raise reader.error("not a master state", at=at, expected=expected_magic, found=magic.hex())
    at = reader.position
    size = reader.i32()
    if not 0 < size <= reader.remaining:
        possible_range = f"1 to {reader.remaining}"
        raise reader.error("a master state with an impossible size", at=at, expected=possible_range, found=size)
    body = ByteReader(reader.data, reader.path, reader.position, reader.position + size)
    master_state = MasterState(version=body.i32(), name=body.utf(), payload=body.blob())
    _check_end(body)
    reader.position = body.position
    return master_state


def _check_end(reader: ByteReader) -> None:
    if reader.remaining:
        raise reader.error("bytes after the end", expected="nothing", found=counted(reader.remaining, "byte"))
