"""Properties of a snapshot: the Java-serialized `CheckpointProperties` at the end of `_metadata` from version 4 on.

The properties say whether the snapshot is a checkpoint or a savepoint, and in which format. Flink's shared-state
registry needs both when a job claims the snapshot. This module reads only classes and enum constants in the properties.

Snapshots of the State Processor API (`SavepointOutputFormat`) have null instead of properties. Flink restores them and
treats their type as unknown, as for snapshots before version 4 (`CompletedCheckpoint.getRestoredProperties`).
"""

from __future__ import annotations

from enum import Enum

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.encoding.java_serialization import JavaEnum, JavaObject, read_java_object

_PROPERTIES_CLASS = "org.apache.flink.runtime.checkpoint.CheckpointProperties"
_PROPERTIES_SERIAL_VERSION = 2
_CHECKPOINT_CLASS = "org.apache.flink.runtime.checkpoint.CheckpointType"
_SAVEPOINT_CLASS = "org.apache.flink.runtime.checkpoint.SavepointType"


class SnapshotType(Enum):
    """Type of a snapshot by its properties; `UNKNOWN` before version 4, for null, and for types of unknown releases."""

    CANONICAL_SAVEPOINT = "canonical savepoint"
    NATIVE_SAVEPOINT = "native savepoint"
    CHECKPOINT = "checkpoint"
    UNKNOWN = "unknown"


def read_properties(reader: ByteReader) -> bytes:
    """Return the bytes of the properties or null at the reader's position. Raises `SnapshotError` for other objects."""
    at = reader.position
    _read_properties(reader)
    return reader.data[at : reader.position]


def snapshot_type(properties: bytes) -> SnapshotType:
    """Return the type of a snapshot with these `Metadata.properties`; `UNKNOWN` for b""."""
    stored_type = _stored_type(properties)
    if stored_type is None:
        return SnapshotType.UNKNOWN
    if stored_type.java_class.name == _CHECKPOINT_CLASS:
        return SnapshotType.CHECKPOINT
    format_type = stored_type.fields.get("formatType")
    if stored_type.java_class.name != _SAVEPOINT_CLASS or not isinstance(format_type, JavaEnum):
        return SnapshotType.UNKNOWN
    return _SAVEPOINT_TYPES.get(format_type.constant, SnapshotType.UNKNOWN)


def stopped_the_job(properties: bytes) -> bool:
    """Whether `Metadata.properties` belong to a savepoint that stopped its job (`PostCheckpointAction`)."""
    stored_type = _stored_type(properties)
    post_checkpoint_action = None if stored_type is None else stored_type.fields.get("postCheckpointAction")
    return isinstance(post_checkpoint_action, JavaEnum) and post_checkpoint_action.constant in ("SUSPEND", "TERMINATE")


def savepoint_properties(is_canonical: bool) -> bytes:
    """Return the properties of a savepoint as Flink 1.16 to 2.3 write them (`CheckpointProperties.forSavepoint`)."""
    return _SAVEPOINT_PROPERTIES % ByteWriter().utf("CANONICAL" if is_canonical else "NATIVE").bytes()


def _stored_type(properties: bytes) -> JavaObject | None:
    """Return the object `SnapshotType` in `Metadata.properties`, if there is one."""
    instance = _read_properties(ByteReader(properties, "the properties in _metadata")) if properties else None
    stored_type = None if instance is None else instance.fields.get("checkpointType")
    return stored_type if isinstance(stored_type, JavaObject) else None


def _read_properties(reader: ByteReader) -> JavaObject | None:
    at = reader.position
    properties = read_java_object(reader)
    if properties is None:
        return None
    if not isinstance(properties, JavaObject):
        raise reader.error("not the properties of a snapshot", at=at, expected=_PROPERTIES_CLASS)
    java_class = properties.java_class
    if (java_class.name, java_class.serial_version) != (_PROPERTIES_CLASS, _PROPERTIES_SERIAL_VERSION):
        raise reader.error(
            "not the properties of a snapshot",
            at=at,
            expected=f"{_PROPERTIES_CLASS}, serialVersionUID {_PROPERTIES_SERIAL_VERSION}",
            found=f"{java_class.name}, serialVersionUID {java_class.serial_version}",
        )
    return properties


_SAVEPOINT_TYPES = {
    "CANONICAL": SnapshotType.CANONICAL_SAVEPOINT,
    "NATIVE": SnapshotType.NATIVE_SAVEPOINT,
}

# Seven booleans, of which only `forced` is true, and a `SavepointType`; `%b` is the name of its format.
_SAVEPOINT_PROPERTIES = (
    b"\xac\xed\x00\x05"
    b"sr\x00\x38org.apache.flink.runtime.checkpoint.CheckpointProperties\0\0\0\0\0\0\0\x02\x02\x00\x08"
    b"Z\x00\x10discardCancelledZ\x00\x0ddiscardFailedZ\x00\x0fdiscardFinishedZ\x00\x0fdiscardSubsumed"
    b"Z\x00\x10discardSuspendedZ\x00\x06forcedZ\x00\x09unclaimed"
    b"L\x00\x0echeckpointTypet\x00\x32Lorg/apache/flink/runtime/checkpoint/SnapshotType;xp"
    b"\x00\x00\x00\x00\x00\x01\x00"
    b"sr\x00\x31org.apache.flink.runtime.checkpoint.SavepointType\xa0\x87\xd3\x08\xa4X\x14\xb8\x02\x00\x03"
    b"L\x00\x0aformatTypet\x00\x35Lorg/apache/flink/core/execution/SavepointFormatType;"
    b"L\x00\x04namet\x00\x12Ljava/lang/String;"
    b"L\x00\x14postCheckpointActiont\x00HLorg/apache/flink/runtime/checkpoint/SavepointType$PostCheckpointAction;xp"
    b"~r\x00\x33org.apache.flink.core.execution.SavepointFormatType\0\0\0\0\0\0\0\0\x12\x00\x00"
    b"xr\x00\x0ejava.lang.Enum\0\0\0\0\0\0\0\0\x12\x00\x00xpt%b"
    b"t\x00\x09Savepoint"
    b"~r\x00Forg.apache.flink.runtime.checkpoint.SavepointType$PostCheckpointAction\0\0\0\0\0\0\0\0\x12\x00\x00"
    b"xq\x00~\x00\x09t\x00\x04NONE"
)
