"""Finds out whether state belongs to a `DynamicKafkaSource`, whose offsets Rescale does not read.

A `DynamicKafkaSource` reads topics of several Kafka clusters, which may change while the job runs. A split
(`DynamicKafkaSourceSplitSerializer`) is the name of a cluster, then a split of a `KafkaSource`. The enumerator's state
(`DynamicKafkaSourceEnumStateSerializer`) lists streams with their clusters and topics, then, for each cluster, the
state of a `KafkaSource`'s enumerator.
"""

from __future__ import annotations

from rescale.flink.encoding.binary import ByteReader
from rescale.flink.kafka.source import UnknownVersionError, VersionedBytes, read_coordinator, read_split
from rescale.text.errors import SnapshotError

_SPLIT_VERSION = 1
_ENUMERATOR_VERSIONS = (1, 2)


def is_dynamic_split(split: VersionedBytes) -> bool:
    """Whether a split of a source's reader belongs to a `DynamicKafkaSource`."""
    reader = ByteReader(split.data)
    try:
        reader.utf()
        kafka_split = VersionedBytes(reader.i32(), reader.raw(reader.remaining))
        return split.version == _SPLIT_VERSION and bool(read_split(kafka_split))
    except (SnapshotError, UnknownVersionError):
        return False


def is_dynamic_enumerator(coordinator: bytes) -> bool:
    """Whether the state of a source's coordinator belongs to a `DynamicKafkaSource` with at least one stream."""
    try:
        state = read_coordinator(coordinator)
        reader = ByteReader(state.data)
        stream_count = reader.count(6)
        for _ in range(stream_count):
            _skip_stream(reader, state.version)
        reader.i32()  # the version of the enumerators' states
        for _ in range(reader.count(6)):
            reader.utf()
            reader.blob()
    except (SnapshotError, UnknownVersionError):
        return False
    return state.version in _ENUMERATOR_VERSIONS and stream_count > 0 and not reader.remaining


def _skip_stream(reader: ByteReader, version: int) -> None:
    """Skip a stream: its name, and for each cluster the name, topics, address and, since version 2, optional bounds."""
    reader.utf()
    for _ in range(reader.count(8)):
        reader.utf()
        for _ in range(reader.count(2)):
            reader.utf()
        reader.utf()
        for _ in range(2 if version > 1 else 0):
            if reader.boolean():
                reader.blob()
