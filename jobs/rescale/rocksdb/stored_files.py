"""The files of a database as Flink's handle lists them (`IncrementalRemoteKeyedStateHandle`).

A checkpoint of RocksDB is a directory of SST files, CURRENT, OPTIONS, and the MANIFEST, which lists the live SST files.
Flink stores each file under another name, and the handle records the file's name in the directory. `needed_files`
checks these names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.storage.contract import Pin
from rescale.text.errors import SnapshotError, UnsupportedError

CURRENT = "CURRENT"

_KNOWN_NAME = re.compile(r"\d+\.sst|MANIFEST-\d+|OPTIONS-\d+|CURRENT|IDENTITY")
_WRITE_AHEAD_LOG = re.compile(r"\d+\.log")
_BLOB_FILE = re.compile(r"\d+\.blob")


@dataclass(frozen=True)
class StoredFile:
    """File `name` of a RocksDB directory: `length` bytes of the file `uri` from offset `start` on, in version `pin`.

    If the bytes are in memory, such as those of a `ByteStreamStateHandle`, they are `data`, and `uri` is for errors
    only.
    """

    name: str
    uri: str
    length: int
    start: int = 0
    pin: Pin | None = None
    data: bytes | None = None


def needed_files(files: Sequence[StoredFile]) -> list[StoredFile]:
    """Return all files except empty write-ahead logs.

    Raises `UnsupportedError` for files that Flink's databases never have, `SnapshotError` for two files of one name.
    """
    for file in files:
        if _BLOB_FILE.fullmatch(file.name):
            raise UnsupportedError(
                "the database has blob files", path=file.uri, found=file.name, advice=RESCALE_CANONICAL_SAVEPOINT
            )
        if _WRITE_AHEAD_LOG.fullmatch(file.name):
            if file.length:
                raise UnsupportedError(
                    "the database has rows in a write-ahead log",
                    path=file.uri,
                    found=file.name,
                    advice=RESCALE_CANONICAL_SAVEPOINT,
                )
        elif not _KNOWN_NAME.fullmatch(file.name):
            raise UnsupportedError(
                "the database has a file of an unknown kind",
                path=file.uri,
                found=file.name,
                advice=RESCALE_CANONICAL_SAVEPOINT,
            )
    files_to_open = [file for file in files if not _WRITE_AHEAD_LOG.fullmatch(file.name)]
    for name, count in Counter(file.name for file in files_to_open).items():
        if count > 1:
            raise SnapshotError(
                "the state handle lists a file of the database twice", path=files_to_open[0].uri, found=name
            )
    return files_to_open


def newest_options(files: Sequence[StoredFile]) -> StoredFile | None:
    """Return the file `OPTIONS-<number>` with the highest number; None if there is none."""
    options_files = [file for file in files if file.name.startswith("OPTIONS-")]
    return max(options_files, key=lambda file: int(file.name.partition("-")[2]), default=None)
