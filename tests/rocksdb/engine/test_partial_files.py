"""Files of a database in S3 that are fetched in parts: lookups find the same rows as in the complete files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import pytest

from rescale.rocksdb.consistency import checked_manifest
from rescale.rocksdb.engine import directory as directory_module
from rescale.rocksdb.engine.changes.keys import keys_of
from rescale.rocksdb.engine.directory import DatabaseDirectory, partly_fetched_database
from rescale.rocksdb.engine.guarded_database import guarded_database
from rescale.rocksdb.engine.lookup import KeysOfRange, rows_of_keys
from rescale.rocksdb.engine.partial_files import PartialFiles
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.rocksdb.sst import index_places
from rescale.rocksdb.stored_files import StoredFile
from rescale.storage.store import open_store
from rescale.text.errors import SnapshotError
from rocksdb.sst.test_block_checksums import FORMS
from support.databases import read_file
from support.rocksdb_writer import MERGE, written
from support.s3 import S3Server, unprotected_store
from support.slow import slow

STATES = ["values", "lists"]
KEY_COUNT = 3000
QUICK_CASES = [(FORMS[0], True), (FORMS[-1], False)]
Model = dict[str, dict[bytes, bytes]]


def key_of(number: int) -> bytes:
    """Draw a key of 3 to 6 bytes in one of 128 key groups."""
    return bytes([number * 128 // KEY_COUNT]) + number.to_bytes(2, "big") + b"long"[: number % 4]


def written_database(folder: Path, form: str) -> tuple[list[StoredFile], Model]:
    """Files in several levels, with deletes, a range tombstone, and a list whose elements fill blocks of their own."""
    rng = Random(form)
    options = f"{MERGE};compression=kSnappyCompression;block_based_table_factory={{{form};block_size=200}}"
    with written(folder / "db", STATES, options) as writer:
        for round_ in range(4):
            for number in sorted(rng.sample(range(KEY_COUNT), KEY_COUNT // (round_ + 1))):
                writer.put("values", key_of(number), rng.randbytes(rng.randint(0, 40)))
                if number % 7 == 0:
                    writer.add("lists", key_of(number), rng.randbytes(20).hex().encode())
            for _ in range(40):
                writer.add("lists", key_of(700), rng.randbytes(20).hex().encode())
            for number in rng.sample(range(KEY_COUNT), 100):
                writer.delete("values", key_of(number))
            if round_ == 2:
                writer.delete_range("values", key_of(1000), key_of(1100))
            writer.flush()
            if round_ == 1:
                writer.compact("values")
        writer.delete_range("values", key_of(2000), key_of(2050))  # its file has no row
        writer.flush()
        return writer.checkpoint(folder / "checkpoint"), writer.model


def upload(files: Sequence[StoredFile], s3: S3Server) -> list[StoredFile]:
    bucket_uri = f"s3://{s3.new_bucket('parts')}"
    uploaded_files = []
    for file in files:
        uri = f"{bucket_uri}/{file.name}"
        unprotected_store(uri).put(uri, read_file(file))
        uploaded_files.append(replace(file, uri=uri, pin=open_store(uri).stat(uri)))
    return uploaded_files


@pytest.fixture(autouse=True)
def small_files_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small files be fetched in parts, too, and parts that are close to each other not be joined."""
    monkeypatch.setattr(directory_module, "SMALLEST_PARTIAL_BYTES", 0)
    monkeypatch.setattr("rescale.rocksdb.engine.partial_files._LARGEST_GAP_BYTES", 0)


def live_files(directory: DatabaseDirectory, state: str) -> tuple[LiveFile, ...]:
    families = checked_manifest(directory.files, directory.content, STATES).column_families
    return next(family.files for family in families if family.name == state)


def look_up(directory: DatabaseDirectory, parts: PartialFiles, state: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    rows = {}
    parts.begin()
    parts.fetch(live_files(directory, state), keys_of(keys))
    with guarded_database(directory, STATES) as opened:
        for records in opened.read(rows_of_keys(128, state, 0, keys_of(keys))):
            for start, limit, end in zip(records.key_starts, records.key_ends, records.ends, strict=True):
                rows[bytes(records.data[start - 1 : limit])] = bytes(records.data[limit + 4 : end])
    return rows


def begun(parts: PartialFiles) -> AbstractContextManager[None]:
    parts.begin()
    return nullcontext()


def bytes_on_disk(directory: DatabaseDirectory) -> int:
    """Return the bytes of the SST files on disk, without holes."""
    return sum(
        512 * (directory.path / file.name).stat().st_blocks for file in directory.files if file.name.endswith(".sst")
    )


@pytest.mark.parametrize(
    ("form", "is_fast"),
    [*QUICK_CASES, *(slow(*case) for case in product(FORMS, (True, False)) if case not in QUICK_CASES)],
)
def test_lookups_in_partly_fetched_files_find_the_same_rows(
    form: str, is_fast: bool, tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lookups of several keys at a time, existing and missing ones, repeatedly, and by both readers of indexes."""
    if not is_fast:
        monkeypatch.setattr(index_places, "_decode_restarts", lambda *_: None)
    files, model = written_database(tmp_path, form)
    rng = Random(1)
    table_names = [file.name for file in files if file.name.endswith(".sst")]
    with partly_fetched_database(upload(files, s3), tmp_path, partial_names=table_names) as (directory, parts):
        for _ in range(4):
            chosen_keys = [key_of(number) for number in rng.sample(range(KEY_COUNT), 15)]
            keys = sorted(
                {
                    *chosen_keys,
                    *(key + b"x" for key in chosen_keys),
                    b"\0",
                    key_of(700),
                    key_of(KEY_COUNT - 1),
                    b"\x7f\xff",
                }
            )
            for state in STATES:
                expected = {key: model[state][key] for key in keys if key in model[state]}
                assert look_up(directory, parts, state, keys) == expected


def test_reading_a_block_that_was_not_fetched_is_refused(tmp_path: Path, s3: S3Server) -> None:
    files, _ = written_database(tmp_path, FORMS[0])
    table_names = [file.name for file in files if file.name.endswith(".sst")]
    with (
        partly_fetched_database(upload(files, s3), tmp_path, partial_names=table_names) as (directory, parts),
        begun(parts),
        guarded_database(directory, STATES) as opened,
        pytest.raises(SnapshotError, match="the database is damaged"),
    ):
        list(opened.read(rows_of_keys(128, "values", 0, keys_of([key_of(number) for number in range(KEY_COUNT)]))))


def test_few_blocks_are_fetched_for_few_keys_and_all_for_a_range(tmp_path: Path, s3: S3Server) -> None:
    with written(tmp_path / "large", STATES, f"{MERGE};block_based_table_factory={{{FORMS[0]}}}") as writer:
        rng = Random(2)
        for number in range(KEY_COUNT):
            writer.put("values", key_of(number), rng.randbytes(1000))
        writer.flush()
        files, model = writer.checkpoint(tmp_path / "of-large"), writer.model
    table_names = [file.name for file in files if file.name.endswith(".sst")]
    with partly_fetched_database(upload(files, s3), tmp_path, partial_names=table_names) as (directory, parts):
        keys = [key_of(100), key_of(2000)]
        assert look_up(directory, parts, "values", keys) == {key: model["values"][key] for key in keys}
        assert bytes_on_disk(directory) < KEY_COUNT * 1000 // 10
        parts.fetch_all(table_names)
        with guarded_database(directory, STATES) as opened:
            all_keys = [key for keys in opened.read(KeysOfRange("values", b"\0", b"\x80")) for key in keys]
        assert all_keys == sorted(model["values"])


def test_local_files_are_linked_and_not_fetched(tmp_path: Path) -> None:
    files, model = written_database(tmp_path, FORMS[0])
    table_names = [file.name for file in files if file.name.endswith(".sst")]
    with partly_fetched_database(files, tmp_path, partial_names=table_names) as (directory, parts):
        assert all((directory.path / name).is_symlink() for name in table_names)
        assert look_up(directory, parts, "values", [key_of(5)]) == {
            key: value for key, value in model["values"].items() if key == key_of(5)
        }
