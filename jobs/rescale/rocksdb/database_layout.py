"""File names, file numbers and levels that all databases made by Rescale share."""

from __future__ import annotations

from collections.abc import Iterable

from rescale.rocksdb.manifest.version_edit import FileTag, LiveFile

MANIFEST_NAME, OPTIONS_NAME = "MANIFEST-000004", "OPTIONS-000007"
FIRST_TABLE_NUMBER = 10
SPARE_FILE_NUMBERS = 10
"""Difference between the next file number in the MANIFEST and the highest number of an SST file."""

LEVEL_COUNT = 7
"""Number of levels with which Flink opens a database (`num_levels`)."""

UNKNOWN_CHECKSUM_FIELDS = ((FileTag.CHECKSUM, b""), (FileTag.CHECKSUM_FUNCTION, b"Unknown"))


def newest_creation_time(files: Iterable[LiveFile]) -> int:
    """Return the newest creation time of the files, in seconds since 1970; 1 if none is known.

    The result is never 0, which RocksDB reads as unknown (`kUnknownFileCreationTime`).
    """
    return max((file.number_in(FileTag.CREATION_TIME) or 1 for file in files), default=1)
