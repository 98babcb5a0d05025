"""Databases that RocksDB has compacted to remove rows of other subtasks are opened by Flink's own libraries."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.assembly.assembly import assemble, is_clean
from rescale.rocksdb.assembly.compaction import StoredDatabase, compacted_database
from rescale.rocksdb.consistency import checked_manifest
from rescale.rocksdb.key_range import key_range
from rescale.rocksdb.manifest.version_edit import FileTag
from rescale.text.errors import SnapshotError, StoreError
from support.assembled import (
    SMALL,
    Part,
    apply,
    check,
    check_further_writes,
    check_our_reading,
    expected_part,
    flinks_parts,
    lay_out,
    overlapping,
    random_parts,
    random_steps,
    ranges,
)
from support.databases import read_file
from support.disks import share_of_a_disk
from support.flinks_rocksdb import FlinksRocksdb
from support.rocksdb_writer import listed
from support.slow import slow


def stored_database(part: Part) -> StoredDatabase:
    return StoredDatabase(part.source(), {file.name: file for file in listed(part.path)})


def compact_parts(path: Path, parts: Sequence[Part], key_groups: KeyGroupRange, max_parallelism: int) -> Part:
    """Write the compacted database to `path`; check that two compactions give the same, clean files."""
    chosen_parts = overlapping(parts, key_groups)
    mtimes_before = {file: file.stat().st_mtime_ns for part in chosen_parts for file in part.path.iterdir()}
    contents: list[dict[str, bytes]] = []
    for i in range(2):
        scratch = path.parent / f"scratch-{path.name}-{i}"
        scratch.mkdir()
        with compacted_database(
            [stored_database(part) for part in chosen_parts], key_groups, max_parallelism, scratch, "place"
        ) as compaction:
            contents.append({name: read_file(file) for name, file in compaction.files.items()})
            assert is_clean(compaction.database, key_groups, max_parallelism)
            assert compaction.written_names == {
                name for name, file in compaction.files.items() if str(scratch) in file.uri
            }
            assert key_range(key_groups, max_parallelism).holds(compaction.database.manifest.files.values())
        assert not list(scratch.iterdir())
    assert {file: file.stat().st_mtime_ns for part in chosen_parts for file in part.path.iterdir()} == mtimes_before
    assert contents[0] == contents[1]
    path.mkdir()
    for name, data in contents[0].items():
        (path / name).write_bytes(data)
    return expected_part(path, chosen_parts, key_groups, max_parallelism)


@pytest.mark.parametrize("seed", [0, *map(slow, range(1, 4))])
@pytest.mark.parametrize(("writer_line", "reader_line"), [slow("1.20", "1.20"), ("1.20", "2"), slow("2", "2")])
def test_dirty_databases_are_compacted_into_one_clean_database(
    seed: int, writer_line: str, reader_line: str, libraries: dict[str, FlinksRocksdb], tmp_path: Path
) -> None:
    """Compaction removes the rows of other subtasks from an assembled database, and the tombstones that hide them."""
    rng = random.Random(seed)
    max_parallelism = rng.choice([16, 128, 1000])
    parts = random_parts(rng, libraries[writer_line], max_parallelism, rng.randint(1, 3), tmp_path)
    dirty_parts = []
    for number, key_groups in enumerate(ranges(max_parallelism, rng.randint(2, 4))):
        chosen_parts = overlapping(parts, key_groups)
        assembled = assemble([part.source() for part in chosen_parts], key_groups, max_parallelism)
        lay_out(assembled, [part.path for part in chosen_parts], tmp_path / f"between-{number}")
        part = expected_part(tmp_path / f"dirty-{number}", chosen_parts, key_groups, max_parallelism)
        more_steps = random_steps(rng, key_groups, max_parallelism, rng.choice([0, 200]), part.states)
        apply(part.model, more_steps)
        with libraries[writer_line].opened(
            tmp_path / f"between-{number}", part.states, rng.choice(["", SMALL])
        ) as database:
            database.write([*more_steps, ("checkpoint", part.path)])
        dirty_parts.append(part)
    for number, key_groups in enumerate(ranges(max_parallelism, rng.randint(1, 3))):
        compacted_part = compact_parts(tmp_path / f"target-{number}", dirty_parts, key_groups, max_parallelism)
        check_our_reading(compacted_part, max_parallelism, tmp_path)
        check(libraries[reader_line], compacted_part)
        check_further_writes(libraries[reader_line], compacted_part, max_parallelism, rng)


@pytest.mark.parametrize("name", ["1.20-rocksdb-2to3", "2-rocksdb-2to3", "2-rocksdb-imported", "1.20-rocksdb-changing"])
@pytest.mark.parametrize("parallelism", [2, slow(5)])
def test_compacted_databases_of_flink_are_opened_by_flinks_libraries(
    name: str, parallelism: int, libraries: dict[str, FlinksRocksdb], tmp_path: Path
) -> None:
    for operator, ((max_parallelism, _), parts) in enumerate(flinks_parts(name, tmp_path).items()):
        for number, key_groups in enumerate(ranges(max_parallelism, parallelism)):
            compacted_part = compact_parts(tmp_path / f"target-{operator}-{number}", parts, key_groups, max_parallelism)
            check_our_reading(compacted_part, max_parallelism, tmp_path)
            for line in ("1.20", "2") if name.startswith("1.20") else ("2",):
                check(libraries[line], compacted_part)


def test_files_within_the_wanted_key_groups_are_not_rewritten(
    libraries: dict[str, FlinksRocksdb], tmp_path: Path
) -> None:
    part = Part(tmp_path / "part", KeyGroupRange(0, 127), ("state",), {"state": {}})
    rng = random.Random(0)
    steps = [("put", "state", bytes([i // 16]) + bytes([i % 16]) * 4, rng.randbytes(100)) for i in range(2048)]
    apply(part.model, steps)
    options = "target_file_size_base=10000;max_bytes_for_level_base=200000"
    with libraries["1.20"].opened(tmp_path / "db", part.states, options) as database:
        database.write([*steps, ("flush",), steps[0], steps[-1], ("flush",), ("compact", "state")])
        database.write([("checkpoint", part.path)])
    source = stored_database(part)
    with compacted_database([source], KeyGroupRange(30, 70), 128, tmp_path, "place") as compaction:
        tables = {name for name in compaction.files if name.endswith(".sst")}
        assert len(tables - compaction.written_names) > 2
        assert 1 <= len(compaction.written_names) <= 2
        for name in tables - compaction.written_names:
            assert compaction.files[name] in [replace(file, name=name) for file in source.files.values()]
        kept_files = [
            file
            for file in source.database.manifest.files.values()
            if file.smallest_key.user_key[0] <= 70 and file.largest_key.user_key[0] >= 30
        ]
        newest_time = max(file.number_in(FileTag.CREATION_TIME) or 0 for file in kept_files)
        for name in compaction.written_names:
            file = compaction.database.manifest.files[name]
            assert file.number_in(FileTag.CREATION_TIME) == newest_time
            assert file.number_in(FileTag.UNIQUE_ID) is None
        assert checked_manifest(list(compaction.files.values()), read_file, ["state"]) == compaction.database.manifest


def test_damaged_table_is_named_when_compaction_reads_it(libraries: dict[str, FlinksRocksdb], tmp_path: Path) -> None:
    part = Part(tmp_path / "part", KeyGroupRange(0, 127), ("state",), {"state": {}})
    steps = [("put", "state", bytes([i // 16]) + bytes([i % 16]) * 4, i.to_bytes(100, "big")) for i in range(2048)]
    with libraries["1.20"].opened(tmp_path / "db", part.states) as database:
        database.write([*steps, ("checkpoint", part.path)])
    (table,) = part.path.glob("*.sst")
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)
    with (
        pytest.raises(SnapshotError, match="damaged") as caught,
        compacted_database([stored_database(part)], KeyGroupRange(30, 70), 128, tmp_path, "place"),
    ):
        pass
    assert "block checksum mismatch" in (caught.value.found or "")
    assert caught.value.path == str(table)


@pytest.mark.slow
def test_exceeded_disk_quota_during_compaction_is_reported(libraries: dict[str, FlinksRocksdb], tmp_path: Path) -> None:
    part = Part(tmp_path / "part", KeyGroupRange(0, 127), ("state",), {"state": {}})
    rng = random.Random(0)
    steps = [("put", "state", bytes([i // 16]) + bytes([i % 16]) * 4, rng.randbytes(1000)) for i in range(2048)]
    with libraries["1.20"].opened(tmp_path / "db", part.states) as database:
        database.write([*steps, ("checkpoint", part.path)])
    with share_of_a_disk(tmp_path / "disk") as share:

        def compact() -> set[str]:
            with compacted_database(
                [stored_database(part)], KeyGroupRange(30, 70), 128, share.path, "place"
            ) as database:
                return set(database.written_names)

        share.limit(share.used() + 400_000)
        with pytest.raises(StoreError, match="the disk on which RocksDB compacts a database is full") as caught:
            compact()
        assert "Disk quota exceeded" in (caught.value.found or "")
        assert caught.value.path == str(share.path)
        assert "SPARK_LOCAL_DIRS" in (caught.value.advice or "")
        assert not list(share.path.iterdir())
        share.limit(None)
        assert compact()
