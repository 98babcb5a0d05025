"""`_metadata`: an accepted input is written back as the same bytes."""

from __future__ import annotations

from collections.abc import Iterator

from fuzzing.subject import Subject
from rescale.flink.metadata.properties import snapshot_type, stopped_the_job
from rescale.flink.metadata.reader import read_metadata
from rescale.flink.metadata.writer import write_metadata
from support.snapshots import FIXTURES

_LARGEST_SEED_BYTES = 12 * 1024


def _seeds() -> Iterator[bytes]:
    for path in sorted(FIXTURES.glob("**/_metadata")):
        if path.stat().st_size <= _LARGEST_SEED_BYTES:
            yield path.read_bytes()


def _look(data: bytes) -> None:
    metadata = read_metadata(data, "_metadata")
    assert write_metadata(metadata) == data
    snapshot_type(metadata.properties)
    stopped_the_job(metadata.properties)


SUBJECT = Subject(_seeds, _look)
