"""A job whose rows change between checkpoints: RocksDB writes its directories, from a fixture's checkpoint on.

Rows are deleted, restored, and get the values of other rows. All keys are from that checkpoint, because each key
must be in the key group of its hash.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

from rescale.flink.metadata.checkpoint_metadata import Metadata
from rescale.flink.metadata.handles import FileStream, IncrementalHandle, RocksdbFile
from rescale.storage.locations import join
from support import edited
from support.checkpoints import Checkpoints, checkpoints_in
from support.databases import databases, read_file
from support.rocksdb_writer import MERGE, Writer
from support.s3 import unprotected_store

FIXTURE = "2-rocksdb-incremental"
OPTIONS = f"block_based_table_factory={{format_version=5;checksum=kCRC32c}};{MERGE}"
"""Options with which our newer RocksDB writes files as Flink's RocksDB does."""


class ChangingJob:
    """The job in `directory`, which retains one checkpoint; its databases are in `work`."""

    def __init__(self, directory: str, work: Path, rng: Random) -> None:
        self.checkpoints: Checkpoints = checkpoints_in(FIXTURE, directory, work / "scratch")
        self._work, self._rng = work, rng
        self._writers: list[Writer] = []
        self._states = [stored.states for stored in databases(FIXTURE)]
        self._removed: list[dict[str, dict[bytes, bytes]]] = [
            {state: {} for state in states} for states in self._states
        ]
        self._uploaded: dict[tuple[int, str], RocksdbFile] = {}
        for number, stored in enumerate(databases(FIXTURE)):
            path = self._path(number)
            path.mkdir()
            for file in stored.files:
                (path / file.name).write_bytes(read_file(file))
        self._open()

    def close(self) -> None:
        for writer in self._writers:
            writer.close()

    def start_again(self) -> None:
        """Restore the job from its last checkpoint: it uploads all files again for the next one."""
        self.close()
        self._uploaded.clear()
        self._open()

    def compact(self) -> None:
        """Compact all files of all states."""
        for writer, states in zip(self._writers, self._states, strict=True):
            for state in states:
                writer.compact(state)

    def _open(self) -> None:
        self._writers = [Writer(self._path(number), states, OPTIONS) for number, states in enumerate(self._states)]

    def _path(self, number: int) -> Path:
        return self._work / f"database-{number}"

    def complete_checkpoint(self) -> None:
        """Change some rows and complete a checkpoint; remove older ones, with the files that only they used."""
        handles = [tuple(self._files(number)) for number in range(len(self._writers))]
        self.checkpoints.copy_newest(self.checkpoints.number + 1)
        file_lists = iter(handles)
        self.checkpoints.rewrite(lambda metadata: _with_files(metadata, file_lists))
        self.checkpoints.delete_older(self.checkpoints.number)
        used = {file.stream.path for files in handles for file in files if isinstance(file.stream, FileStream)}
        unused = [uri for uri in self.checkpoints.shared() if uri not in used]
        unprotected_store(self.checkpoints.directory).delete(unused)

    def _files(self, number: int) -> Iterator[RocksdbFile]:
        """Change a database, and yield the files of its checkpoint; only new SST files are uploaded."""
        writer = self._writers[number]
        for state in self._states[number]:
            self._change(number, state)
            if self._rng.random() < 0.2:
                writer.compact(state)
        path = self._work / uuid.uuid4().hex
        store = unprotected_store(self.checkpoints.directory)
        for file in writer.checkpoint(path):
            file_id = (number, file.name)
            if file_id not in self._uploaded or not file.name.endswith(".sst"):
                place = join(self.checkpoints.directory, f"shared/{uuid.uuid4()}")
                store.put(place, (path / file.name).read_bytes())
                self._uploaded[file_id] = RocksdbFile(file.name, FileStream(place, file.length))
            yield self._uploaded[file_id]
        shutil.rmtree(path)

    def _change(self, number: int, state: str) -> None:
        writer, removed, rng = self._writers[number], self._removed[number][state], self._rng
        rows = writer.rows(state)
        values = [*rows.values()]
        for key, value in rows.items():
            roll = rng.random()
            if roll < 0.1:
                writer.delete(state, key)
                removed[key] = value
            elif roll < 0.3:
                writer.put(state, key, rng.choice(values))
        for key in [key for key in removed if key not in rows and rng.random() < 0.2]:
            writer.put(state, key, removed.pop(key))
        if rng.random() < 0.5:
            writer.flush()


def _with_files(metadata: Metadata, files: Iterator[tuple[RocksdbFile, ...]]) -> Metadata:
    def changed(handle: IncrementalHandle) -> IncrementalHandle:
        new_files = next(files)
        shared = tuple(file for file in new_files if file.name.endswith(".sst"))
        private = tuple(file for file in new_files if not file.name.endswith(".sst"))
        return replace(handle, shared=shared, private=private)

    return edited.with_databases(metadata, changed)
