"""Names, numbers and levels that are the same in all databases that Rescale makes."""

from __future__ import annotations

from collections.abc import Iterable

from rescale.rocksdb.manifest.version_edit import FileTag, LiveFile

MANIFEST_NAME, OPTIONS_NAME = "MANIFEST-000004", "OPTIONS-000007"
FIRST_TABLE = 10
NUMBERS_LEFT = 10
"""Numbers left free between the highest number of a file and the next one that RocksDB assigns."""

LEVELS = 7
"""Number of levels with which Flink opens a database (`num_levels`)."""

UNKNOWN_CHECKSUM = ((FileTag.CHECKSUM, b""), (FileTag.CHECKSUM_FUNCTION, b"Unknown"))


def newest_creation(files: Iterable[LiveFile]) -> int:
    """Return when the newest of the files was written, in seconds since 1970; 1 if unknown, never 0."""
    return max((file.number_in(FileTag.CREATION_TIME) or 1 for file in files), default=1)
