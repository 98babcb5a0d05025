"""Writer of `_metadata`: the inverse of `reader`.

The writer writes each version as Flink does. Content that a version cannot express (coordinator state in version 2,
names before version 5) is an error.
"""

from __future__ import annotations

from rescale.flink.encoding.binary import ByteWriter
from rescale.flink.metadata.checkpoint_metadata import (
    FIRST_VERSION_WITH_PROPERTIES,
    MAGIC,
    MASTER_STATE_MAGIC,
    RELEASES_BY_VERSION,
    Metadata,
)
from rescale.flink.metadata.handles import KeyedHandle, OperatorHandle
from rescale.flink.metadata.keyed_handles import write_keyed
from rescale.flink.metadata.operator_handles import write_operator
from rescale.flink.metadata.operator_states import write_operator_states
from rescale.text.errors import UnsupportedError


def write_metadata(metadata: Metadata) -> bytes:
    """Return the bytes of a `_metadata` file. Raises `UnsupportedError` if its version cannot express all content."""
    _check_version(metadata)
    out = ByteWriter().raw(MAGIC).i32(metadata.version).i64(metadata.checkpoint_id)
    out.i32(len(metadata.masters))
    for master in metadata.masters:
        body = ByteWriter().i32(master.version).utf(master.name).blob(master.payload)
        out.raw(MASTER_STATE_MAGIC).blob(body.bytes())
    write_operator_states(out, metadata.operators, metadata.version)
    return out.raw(metadata.properties).bytes()


def write_keyed_handle(handle: KeyedHandle | None) -> bytes:
    """Return the bytes of a keyed handle, as in a `_metadata` file."""
    out = ByteWriter()
    write_keyed(out, handle)
    return out.bytes()


def write_operator_handle(handle: OperatorHandle | None) -> bytes:
    """Return the bytes of an operator handle, as in a `_metadata` file."""
    out = ByteWriter()
    write_operator(out, handle)
    return out.bytes()


def _check_version(metadata: Metadata) -> None:
    if metadata.version not in RELEASES_BY_VERSION:
        raise UnsupportedError(
            "this metadata version cannot be written",
            expected=", ".join(map(str, RELEASES_BY_VERSION)),
            found=metadata.version,
        )
    if bool(metadata.properties) != (metadata.version >= FIRST_VERSION_WITH_PROPERTIES):
        raise UnsupportedError(
            f"metadata version {metadata.version} {'has no place for' if metadata.properties else 'needs'} properties",
            advice=f"write properties from version {FIRST_VERSION_WITH_PROPERTIES} on, and none below",
        )
