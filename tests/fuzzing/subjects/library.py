"""SST files with right checksums, read by RocksDB's library in a process of their own, which must survive it."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

from fuzzing.subject import Subject
from fuzzing.subjects.tables import Sealing, read_table
from rescale.errors import RescaleError, SnapshotError
from rescale.rocksdb.manifest.manifest import Manifest, read_manifest
from rescale.rocksdb.manifest.manifest_writer import write_manifest
from rescale.rocksdb.sst import table
from rescale.rocksdb.stored_files import StoredFile
from support.databases import Stored, databases, read_file, read_rows

_SNAPSHOTS = ("1.20-rocksdb-changing", "2-rocksdb-changing")
_REFUSED = 3
"""The exit code of a child that ends in an error of ours."""


@cache
def _stored() -> tuple[Stored, ...]:
    return tuple(databases(name)[0] for name in _SNAPSHOTS)


def _tables(stored: Stored) -> list[StoredFile]:
    return [file for file in stored.files if file.name.endswith(".sst")]


def _seeds() -> Iterator[bytes]:
    """The database, which of its tables, and that one's bytes."""
    for number, stored in enumerate(_stored()):
        for at, file in enumerate(_tables(stored)):
            yield bytes((number, at)) + read_file(file)


def _look(data: bytes) -> None:
    head, data = data[:2].ljust(2, b"\0"), data[2:]
    stored = _stored()[head[0] % len(_SNAPSHOTS)]
    chosen = _tables(stored)[head[1] % len(_tables(stored))]
    sealing = Sealing(data)
    with patch.object(table, "unpacked", sealing.unpacked), suppress(RescaleError):
        read_table(data)
    code = _read_in_a_child(stored, _with_table(stored, chosen, bytes(sealing.data)))
    if code == _REFUSED:
        raise SnapshotError("RocksDB or what looks in front of it refuses the file")
    assert code == 0, f"the process that read it ended with {code}"


def _with_table(stored: Stored, chosen: StoredFile, data: bytes) -> list[StoredFile]:
    """The files with another table, whose size the MANIFEST knows."""
    files = []
    for file in stored.files:
        if file == chosen:
            files.append(replace(file, data=data, length=len(data), start=0))
        elif file.name.startswith("MANIFEST"):
            manifest = write_manifest(_resized(read_manifest(read_file(file), ""), chosen.name, len(data)), "")
            files.append(replace(file, data=manifest, length=len(manifest)))
        else:
            files.append(file)
    return files


def _resized(manifest: Manifest, name: str, size: int) -> Manifest:
    families = tuple(
        replace(family, files=tuple(replace(file, size=size) if file.name == name else file for file in family.files))
        for family in manifest.column_families
    )
    return replace(manifest, column_families=families)


def _read_in_a_child(stored: Stored, files: list[StoredFile]) -> int:
    """Its exit code; the negative number of the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with tempfile.TemporaryDirectory() as scratch:
                read_rows(files, stored.states, stored.key_groups, stored.max_parallelism, Path(scratch))
            code = 0
        except RescaleError:
            code = _REFUSED
        except AssertionError:  # rows that are not unique, of a file whose keys have no order
            code = _REFUSED
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


SUBJECT = Subject(_seeds, _look, compiled=True)
