"""RocksDB databases of savepoints: RocksDB writes them, and opens them as Flink does.

The rows to be written are kept in a plain mapping beside the database. All rows are read as a backend would read them:
by an iterator, by their keys, and again after a compaction, because only a compaction reveals some files in a wrong
order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from rescale.rocksdb.manifest.edit_writer import varint
from rescale.rocksdb.manifest.manifest import Manifest, read_manifest
from rescale.rocksdb.manifest.manifest_writer import write_manifest
from rescale.rocksdb.manifest.version_edit import FileTag, LiveFile
from rescale.rocksdb.sst.identity import overwrite_identity
from support.rocksdb_writer import MERGE, Writer, written

Rows = dict[str, dict[bytes, bytes]]
"""Value by state and key, with the key group in front of the key."""

_CREATION_SECONDS = 1_700_000_000
_IN_MEMORY_FOLDER = Path("/dev/shm")
_FLINKS_TABLE_OPTIONS = "block_based_table_factory={format_version=5;checksum=kCRC32c};compression=kSnappyCompression"
_EXISTING_ONLY_OPTIONS = f"{MERGE};create_if_missing=0;create_missing_column_families=0"
ONE_THREAD_OPTION = "max_file_opening_threads=1"
"""Option to open files in one thread: few small files open before sixteen threads, which are the default, would
start."""

SMALL_LEVELS_OPTIONS = (
    f"{MERGE};{_FLINKS_TABLE_OPTIONS};db_host_id=sim;max_bytes_for_level_base=2000;target_file_size_base=900"
)


def scratch_folder() -> str | None:
    """Return a directory where small databases open quickly, if there is one."""
    return str(_IN_MEMORY_FOLDER) if _IN_MEMORY_FOLDER.is_dir() else None


class KeyRanges(NamedTuple):
    """First key and end (exclusive) of the rows of the own key groups of a subtask, and of those of all key groups."""

    own: tuple[bytes, bytes]
    all: tuple[bytes, bytes]


def write_database(
    random: Random, rows: Rows, list_states: Sequence[str], foreign_rows: Rows, ranges: KeyRanges, name: str
) -> dict[str, bytes]:
    """Return the files, by name, of a database that holds `rows`, written by random puts, flushes and compactions.

    The `list_states` are written element by element, since their values are joined by commas. The `foreign_rows` are
    hidden by range tombstones, as when Flink clips a database.
    """
    with (
        tempfile.TemporaryDirectory(dir=scratch_folder()) as folder,
        written(Path(folder, "db"), list(rows), SMALL_LEVELS_OPTIONS) as db,
    ):
        if foreign_rows:
            for state, key in _shuffled(random, foreign_rows):
                db.put(state, key, foreign_rows[state][key])
            if random.random() < 0.5:
                db.flush()
        for state, key in _shuffled(random, rows):
            if random.random() < 0.2:
                db.put(state, key, b"an older value")
                if random.random() < 0.2:
                    db.flush()
                if state in list_states:
                    db.delete(state, key)
            if state in list_states:
                for element in rows[state][key].split(b","):
                    db.add(state, key, element)
                    if random.random() < 0.1:
                        db.flush()
            else:
                db.put(state, key, rows[state][key])
            if random.random() < 0.1:
                db.put(state, key + b"\0gone", b"deleted below")
                if random.random() < 0.3:
                    db.flush()
                db.delete(state, key + b"\0gone")
            if random.random() < 0.05:
                db.flush()
            if random.random() < 0.02:
                db.compact(state)
        if random.random() < 0.3:
            for state in rows:
                db.flush()
                db.compact(state)
        if foreign_rows:
            for state in rows:
                db.delete_range(state, ranges.all[0], ranges.own[0])
                db.delete_range(state, ranges.own[1], ranges.all[1])
        db.flush()
        assert db.model == rows
        return read_reproducible(db, Path(folder), "checkpoint", name)


def read_reproducible(db: Writer, folder: Path, checkpoint: str, name: str) -> dict[str, bytes]:
    """Return the files of a checkpoint of the database in `folder`, without ids and times that differ between runs.

    `name` is unique, and takes the place of the ids.
    """
    files = {file.name: Path(file.uri).read_bytes() for file in db.checkpoint(folder / checkpoint)}
    reproducible_files = _reproducible_files(files, Path(folder, "db", "IDENTITY").read_bytes(), folder, name)
    assert rows_of_database(tuple(sorted(reproducible_files.items())), tuple(db.model)) == db.model
    reproducible_files["OPTIONS-000007"] = _options_file(list(db.model))
    return reproducible_files


def _shuffled(random: Random, rows: Rows) -> list[tuple[str, bytes]]:
    keys = [(state, key) for state in rows for key in rows[state]]
    random.shuffle(keys)
    return keys


def _reproducible_files(files: Mapping[str, bytes], identity: bytes, folder: Path, name: str) -> dict[str, bytes]:
    """Return the files that a handle lists, always with the same bytes for the same seed.

    `name` takes the place of RocksDB's ids, and a fixed time that of all times.
    """
    reproducible_files = {"CURRENT": files["CURRENT"], "OPTIONS-000007": b""}
    for file in files:
        if file.endswith(".sst"):
            path = folder / file
            path.write_bytes(files[file].replace(identity, b"-" * len(identity)))
            overwrite_identity(path, f"{name}/{file}", _CREATION_SECONDS)
            reproducible_files[file] = path.read_bytes()
        elif file.startswith("MANIFEST-"):
            reproducible_files[file] = write_manifest(_without_times(read_manifest(files[file], file)), file)
    return reproducible_files


def _without_times(manifest: Manifest) -> Manifest:
    times = {FileTag.OLDEST_ANCESTOR_TIME: varint(_CREATION_SECONDS), FileTag.CREATION_TIME: varint(_CREATION_SECONDS)}

    def file_without_times(file: LiveFile) -> LiveFile:
        fields = ((tag, times.get(FileTag(tag), value)) for tag, value in file.fields if tag != FileTag.UNIQUE_ID)
        return replace(file, fields=tuple(fields))

    families = (
        replace(family, files=tuple(map(file_without_times, family.files))) for family in manifest.column_families
    )
    return replace(manifest, column_families=tuple(families))


def _options_file(states: Sequence[str]) -> bytes:
    """Return the few lines of RocksDB's OPTIONS file that affect reads."""
    lines = ["[Version]", "  rocksdb_version=8.10.0"]
    for state in ("default", *states):
        lines += [f'[CFOptions "{state}"]', "  comparator=leveldb.BytewiseComparator"]
        lines += ["  merge_operator={id=StringAppendTESTOperator;delimiter=,;}", "  table_factory=BlockBasedTable"]
    return "\n".join([*lines, ""]).encode()


class UnreadableError(AssertionError):
    """Refusal of RocksDB to open a directory."""


@lru_cache(maxsize=512)
def rows_of_database(files: tuple[tuple[str, bytes], ...], states: tuple[str, ...]) -> Rows:
    """Return the rows that a backend with these states reads. Raises `UnreadableError` if RocksDB refuses them."""
    with tempfile.TemporaryDirectory(dir=scratch_folder()) as folder:
        for name, data in files:
            if not name.startswith("OPTIONS-"):
                Path(folder, name).write_bytes(data)
        try:
            with written(Path(folder), states, f"{_EXISTING_ONLY_OPTIONS};{ONE_THREAD_OPTION}") as db:
                rows = {state: db.rows(state) for state in states}
                value_by_key = {state: {key: db.value(state, key) for key in rows[state]} for state in states}
                for state in states:
                    db.compact(state)
                rows_after_compaction = {state: db.rows(state) for state in states}
        except AssertionError as error:
            raise UnreadableError(str(error)) from None
    assert value_by_key == rows, "some rows are not found by their keys"
    assert rows_after_compaction == rows, "other rows after a compaction"
    return rows
