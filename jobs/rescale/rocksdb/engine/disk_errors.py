"""Turns errors of the disk to which databases are fetched into `StoreError`s that say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rescale.text.errors import NO_ROOM, StoreError

_DIRECTORY_ADVICE = "name a writable directory in SPARK_LOCAL_DIRS (on a Spark cluster: spark.local.dir)"
ROOM_ADVICE = (
    "name a directory with more room in SPARK_LOCAL_DIRS (on a Spark cluster: spark.local.dir, or a larger volume): "
    "each running task puts a database there"
)


@contextmanager
def disk_errors(scratch: Path) -> Iterator[None]:
    """Turn an `OSError` of the block into a `StoreError`; it names `scratch` if the error names no file."""
    try:
        yield
    except OSError as error:
        path, advice = error.filename or str(scratch), ROOM_ADVICE if error.errno in NO_ROOM else _DIRECTORY_ADVICE
        raise StoreError(f"the file system says: {error.strerror}", path=path, advice=advice) from None
