"""Databases that consist of a base and layers of changes, as the rounds of a follower make them."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rescale.rocksdb.assembly.new_database import NewTable, continued_manifest, new_manifest, place_of_changes
from rescale.rocksdb.engine.table_writer import Rows, TableWriter
from rescale.rocksdb.manifest.manifest import Manifest
from rescale.rocksdb.manifest.manifest_writer import write_current, write_manifest
from rescale.rocksdb.manifest.version_edit import DELETION, VALUE
from rescale.rocksdb.stored_files import CURRENT
from support.assembled import Model

CREATED = 1_700_000_000


class Change(NamedTuple):
    """A key with its values before and after the change; None for no value."""

    key: bytes
    before: bytes | None
    after: bytes | None


def tables_of(changes: Sequence[Change], sequence: int, name: str) -> list[tuple[NewTable, bytes]]:
    """Write changes into several small tables; return each with its bytes.

    `name` must be unique: RocksDB's cache would mix up the blocks of files with the same name.
    """
    data, places, kinds = bytearray(), [], []
    for key, _, after in changes:
        at = len(data)
        data += key + (after or b"")
        places.append((at, at + len(key), at + len(key), len(data)))
        kinds.append(DELETION if after is None else VALUE)
    columns = np.array(places, np.int64).reshape(-1, 4).T
    rows = Rows(
        np.frombuffer(bytes(data) or b"\0", np.uint8), *(column.copy() for column in columns), np.array(kinds, np.uint8)
    )
    writer = TableWriter(
        lambda _: BytesIO(), name, creation_time=CREATED, path="", state="", table_bytes=2000, sequence=sequence
    )
    written = [*writer.write(rows, np.arange(len(changes))), *writer.finish()]
    return [
        (NewTable(table.size, table.smallest_key, table.largest_key, table.bound_kinds), table.file.getvalue())
        for table in written
    ]


def lay_out(path: Path, manifest: Manifest, files: dict[str, bytes]) -> None:
    path.mkdir()
    for name in manifest.files:
        (path / name).write_bytes(files[name])
    (path / "MANIFEST-000004").write_bytes(write_manifest(manifest, ""))
    (path / CURRENT).write_bytes(write_current("MANIFEST-000004"))


def changes_between(before: Model, after: Model) -> dict[str, list[Change]]:
    """Return the changes from one model to another, by state."""
    return {
        state: [
            Change(key, before[state].get(key), after[state].get(key))
            for key in sorted(before[state].keys() | after[state].keys())
            if before[state].get(key) != after[state].get(key)
        ]
        for state in before
    }


def write_layers(path: Path, models: Sequence[Model]) -> Manifest:
    """Write a database whose base holds the first model, with a layer of changes for each later model."""
    empty: Model = {state: {} for state in models[0]}
    manifest, files = Manifest((), 0, 0), dict[str, bytes]()
    for number, (before, after) in enumerate(zip([empty, *models], models, strict=False)):
        place = place_of_changes(manifest) if number else None
        tables = {
            state: tables_of(changes, place.sequence if place else 0, f"{path.name}-{number}-{state}")
            for state, changes in changes_between(before, after).items()
        }
        new = {state: [table for table, _ in some] for state, some in tables.items()}
        known = manifest.files
        manifest = continued_manifest(manifest, new, place, CREATED) if place else new_manifest(new, CREATED)
        names = [name for name in manifest.files if name not in known]
        files |= zip(names, [data for some in tables.values() for _, data in some], strict=True)
    lay_out(path, manifest, files)
    return manifest
