"""OPTIONS of a database."""

from __future__ import annotations

from collections.abc import Iterator

from fuzzing.subject import Subject
from fuzzing.subjects.manifest import SNAPSHOTS
from rescale.rocksdb.options_file import check_options
from support.databases import databases, read_file


def _seeds() -> Iterator[bytes]:
    for name in SNAPSHOTS:
        for file in databases(name)[0].files:
            if file.name.startswith("OPTIONS"):
                yield read_file(file)


def _look(data: bytes) -> None:
    check_options(data, "OPTIONS")


SUBJECT = Subject(_seeds, _look)
