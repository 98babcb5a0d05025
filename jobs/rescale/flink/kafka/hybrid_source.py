"""Finds out whether state belongs to a `HybridSource` that reads Kafka; Rescale does not read its offsets.

A `HybridSource` reads several sources in turn. A split (`HybridSourceSplitSerializer`) wraps a split of the current
source. The enumerator's state (`HybridSourceEnumeratorStateSerializer`) wraps the state of the current source's
enumerator.
"""

from __future__ import annotations

from rescale.flink.encoding.binary import ByteReader
from rescale.flink.kafka.source import (
    UnknownVersionError,
    VersionedBytes,
    decode_enumerator,
    read_coordinator,
    read_split,
)
from rescale.text.errors import SnapshotError

_SPLIT_VERSIONS = (0, 1)
_ENUMERATOR_VERSION = 0


def is_hybrid_split(split: VersionedBytes) -> bool:
    """Whether a split of a source's reader belongs to a `HybridSource` that reads Kafka."""
    reader = ByteReader(split.data)
    try:
        reader.i32()  # the index of the current source
        reader.utf()
        kafka_split = VersionedBytes(reader.i32(), reader.blob())
        if split.version == 1:
            reader.boolean()  # whether the split is finished
        return split.version in _SPLIT_VERSIONS and not reader.remaining and bool(read_split(kafka_split))
    except (SnapshotError, UnknownVersionError):
        return False


def is_hybrid_enumerator(coordinator: bytes) -> bool:
    """Whether the state of a source's coordinator belongs to a `HybridSource` that lists a Kafka partition."""
    try:
        state = read_coordinator(coordinator)
        reader = ByteReader(state.data)
        reader.i32()  # the index of the current source
        kafka_enumerator = VersionedBytes(reader.i32(), reader.blob())
        partitions = decode_enumerator(kafka_enumerator).partitions
    except (SnapshotError, UnknownVersionError):
        return False
    return state.version == _ENUMERATOR_VERSION and bool(partitions) and not reader.remaining
