"""Java object streams."""

from __future__ import annotations

from collections.abc import Iterator

from fuzzing.subject import Subject
from fuzzing.subjects.headers import keyed_headers
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.encoding.java_serialization import STREAM_HEADER, read_java_object
from rescale.flink.metadata.properties import read_properties
from support.snapshots import FIXTURES

_LONGEST_SEED_BYTES = 4096
_PROPERTIES = b"CheckpointProperties"


def _seeds() -> Iterator[bytes]:
    """Yield the Java object streams in snapshots, properties first; most are followed by other bytes."""
    seeds = set()
    for data in (*keyed_headers(), *(path.read_bytes() for path in sorted(FIXTURES.glob("*/snapshot/_metadata")))):
        at = data.find(STREAM_HEADER)
        while at >= 0:
            seeds.add(data[at : at + _LONGEST_SEED_BYTES])
            at = data.find(STREAM_HEADER, at + 1)
    yield from sorted(seeds, key=lambda data: (_PROPERTIES not in data[:80], len(data), data))


def _look(data: bytes) -> None:
    reader = ByteReader(data, "stream")
    read_java_object(reader)
    assert 0 < reader.position <= len(data)
    properties = ByteReader(data, "stream")
    assert read_properties(properties) == data[: properties.position]


SUBJECT = Subject(_seeds, _look)
