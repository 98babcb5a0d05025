"""Snapshots with one RocksDB directory whose files a test has written, opened as in planning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.header import read_keyed_header
from rescale.rocksdb.stored_files import StoredFile
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.keyed_state import Database, DatabaseFile
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Snapshot
from rescale.storage.store import Pin, open_store
from support import synthetic


def snapshot_of(
    files: Sequence[StoredFile], header: bytes, key_groups: KeyGroupRange, max_parallelism: int = 128
) -> Snapshot:
    """Return a snapshot of one subtask; `header` describes the states."""
    named = tuple(DatabaseFile(file.name, Extent(i + 1, 0, file.length)) for i, file in enumerate(files))
    parsed = read_keyed_header(header, "header")
    database = Database(0, key_groups, Extent(0, 0, len(header)), header, parsed, named)
    snapshot = synthetic.snapshot(synthetic.operator("of mine", 1, max_parallelism, databases=(database,)))
    sized_files = [(file.uri, open_store(file.uri).stat(file.uri) or Pin(0)) for file in files]
    return with_tables(replace(snapshot, files=(snapshot.files[0], *sized_files)))


@dataclass
class Reads:
    """Stores that record the number of bytes of each read."""

    lengths: list[int] = field(default_factory=list)

    def open(self, uri: str) -> Any:
        store, lengths = open_store(uri), self.lengths

        class RecordingStore:
            def read(self, uri: str, start: int, length: int, pin: object = None) -> bytes:
                lengths.append(length)
                return store.read(uri, start, length, pin)  # type: ignore[arg-type]

        return RecordingStore()
