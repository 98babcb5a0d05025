"""Databases assembled from files of other databases: Flink's own RocksDB libraries read them and write into them."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.assembly.assembled_database import SourceDatabase
from rescale.rocksdb.assembly.assembly import assemble, is_clean
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.manifest import ColumnFamily, Manifest
from rescale.rocksdb.manifest.version_edit import FileTag, LiveFile
from rescale.text.errors import SnapshotError, UnsupportedError
from support.assembled import (
    STATES,
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
from support.flinks_rocksdb import FlinksRocksdb
from support.slow import slow, slow_but

WRITER_AND_READER_LINES = (slow("1.20", "1.20"), ("1.20", "2"), ("2", "2"))


@pytest.mark.parametrize("seed", [0, *map(slow, range(1, 4))])
@pytest.mark.parametrize(("writer_line", "reader_line"), WRITER_AND_READER_LINES)
def test_assembled_random_databases_are_opened_by_flinks_libraries(
    seed: int, writer_line: str, reader_line: str, libraries: dict[str, FlinksRocksdb], tmp_path: Path
) -> None:
    rng = random.Random(seed)
    max_parallelism = rng.choice([16, 128, 1000])
    parts = random_parts(rng, libraries[writer_line], max_parallelism, rng.randint(1, 5), tmp_path)
    for number, key_groups in enumerate(ranges(max_parallelism, rng.randint(1, 8))):
        joined_part = join_parts(tmp_path / f"target-{number}", parts, key_groups, max_parallelism)
        check_our_reading(joined_part, max_parallelism, tmp_path)
        check(libraries[reader_line], joined_part)
        check_further_writes(libraries[reader_line], joined_part, max_parallelism, rng)


def join_parts(path: Path, parts: list[Part], key_groups: KeyGroupRange, max_parallelism: int) -> Part:
    chosen_parts = overlapping(parts, key_groups)
    assembled = assemble([part.source() for part in chosen_parts], key_groups, max_parallelism)
    lay_out(assembled, [part.path for part in chosen_parts], path)
    return expected_part(path, chosen_parts, key_groups, max_parallelism)


@pytest.mark.parametrize(("writer_line", "reader_line"), WRITER_AND_READER_LINES)
def test_files_in_level_0_keep_their_order_of_age_per_database(
    writer_line: str, reader_line: str, libraries: dict[str, FlinksRocksdb], tmp_path: Path
) -> None:
    """Each database counts its sequence numbers and epochs from 1, so those of several databases must not mix."""
    rng = random.Random(1)
    parts = []
    for subtask, key_groups in enumerate(ranges(128, 3)):
        steps = [step for _ in range(4) for step in (*random_steps(rng, key_groups, 128, 60), ("flush",))]
        path = tmp_path / f"part-{subtask}"
        with libraries[writer_line].opened(tmp_path / f"db-{subtask}", STATES) as database:
            database.write([*steps, ("checkpoint", path)])
        part = Part(path, key_groups, STATES, {state: {} for state in STATES})
        apply(part.model, steps)
        parts.append(part)
    key_groups = KeyGroupRange(20, 100)
    joined_part = join_parts(tmp_path / "target", parts, key_groups, 128)
    for family in joined_part.source().manifest.column_families[1:]:
        tombstone_files = [file for file in family.files if file.is_largest_exclusive]
        assert len(tombstone_files) == 2
        assert len(family.files) > 12
        newest_first = sorted(family.files, key=lambda file: -file.largest_sequence)
        assert set(newest_first[:2]) == set(tombstone_files)
        assert all(newer.smallest_sequence > other.largest_sequence for newer, other in pairwise(newest_first))
        epochs = {file.number_in(FileTag.EPOCH_NUMBER) for file in family.files}
        assert epochs == {None} if writer_line == "1.20" else len(epochs) == len(family.files)
    check(libraries[reader_line], joined_part)
    check_further_writes(libraries[reader_line], joined_part, 128, rng)


FIXTURE_NAMES = [
    f"{line}-rocksdb-{name}"
    for line, names in {
        "1.20": ("changing", "2to3", "3to2", "native-incremental", "heap-timers"),
        "2": ("changing", "2to3", "3to2", "native-incremental", "heap-timers", "imported"),
    }.items()
    for name in names
]


@pytest.mark.parametrize("name", slow_but(lambda name: name.endswith(("changing", "2to3")), FIXTURE_NAMES))
@pytest.mark.parametrize("parallelism", [1, 3, slow(5)])
def test_databases_of_flink_are_assembled_or_refused_if_dirty(
    name: str, parallelism: int, libraries: dict[str, FlinksRocksdb], tmp_path: Path
) -> None:
    """Clipped databases are dirty: usable alone, but joined they would hide rows of other databases."""
    refused_count = assembled_count = 0
    for operator, ((max_parallelism, _), parts) in enumerate(flinks_parts(name, tmp_path).items()):
        for number, key_groups in enumerate(ranges(max_parallelism, parallelism)):
            chosen_parts = overlapping(parts, key_groups)
            if len(chosen_parts) > 1 and not all(
                is_clean(part.source(), key_groups, max_parallelism) for part in chosen_parts
            ):
                with pytest.raises(UnsupportedError, match="rows outside of its key groups") as caught:
                    assemble([part.source() for part in chosen_parts], key_groups, max_parallelism)
                assert "--format canonical" in (caught.value.advice or "")
                refused_count += 1
                continue
            joined_part = join_parts(tmp_path / f"target-{operator}-{number}", parts, key_groups, max_parallelism)
            check_our_reading(joined_part, max_parallelism, tmp_path)
            for line in ("1.20", "2") if name.startswith("1.20") else ("2",):
                check(libraries[line], joined_part)
            assembled_count += 1
    assert assembled_count or refused_count
    is_clipped = name.endswith(("2to3", "imported"))
    assert not refused_count or is_clipped
    assert refused_count or not (is_clipped and parallelism == 1)


Fields = tuple[tuple[int, bytes], ...]


def live_file(
    number: int, smallest: bytes, largest: bytes, *, level: int = 0, fields: tuple[tuple[int, bytes], ...] = ()
) -> LiveFile:
    keys = InternalKey(smallest, 5, 1), InternalKey(largest, 6, 1)
    return LiveFile(level, number, 1000, *keys, 5, 6, fields)


def source_database(first: int, last: int, *files: LiveFile) -> SourceDatabase:
    families = (ColumnFamily(0, "default", ()), ColumnFamily(1, "state", files))
    return SourceDatabase(f"{first}-{last}", Manifest(families, 10, 100), KeyGroupRange(first, last))


def test_rows_before_the_source_key_groups_are_hidden_by_a_range_tombstone() -> None:
    """The only source has rows of key groups below its own, which the job has left there."""
    assembled = assemble([source_database(10, 19, live_file(5, b"\x08", b"\x0c"))], KeyGroupRange(0, 15), 128)
    (file, tombstone_file) = assembled.manifest.column_families[1].files
    assert (file.name, file.smallest_sequence) == ("000010.sst", 5)
    assert (tombstone_file.smallest_user_key, tombstone_file.largest_user_key, tombstone_file.is_largest_exclusive) == (
        b"\x08",
        b"\x0a",
        True,
    )
    assert assembled.straddling_names == ("000010.sst",)
    assert assembled.straddling_bytes == 1000


def test_files_outside_the_wanted_key_groups_are_not_taken() -> None:
    outside_files = live_file(5, b"\x02", b"\x09"), live_file(6, b"\x14", b"\x15")
    assembled = assemble(
        [source_database(0, 31, *outside_files, live_file(7, b"\x0a", b"\x13\xff"))], KeyGroupRange(10, 19), 128
    )
    assert [reused.source_name for reused in assembled.reused_files] == ["000007.sst"]
    assert [file.name for file in assembled.new_files] == ["MANIFEST-000004", "CURRENT"]
    assert not assembled.straddling_names


def test_database_is_clean_if_rows_of_other_subtasks_lie_in_other_files() -> None:
    left_behind = live_file(5, b"\x08", b"\x09")
    sources = [
        source_database(0, 7, live_file(4, b"\x01", b"\x02"), left_behind),
        source_database(8, 15, live_file(4, b"\x08", b"\x09")),
    ]
    assert is_clean(sources[0], KeyGroupRange(0, 15), 128)
    assembled = assemble(sources, KeyGroupRange(0, 15), 128)
    assert [(reused.source_number, reused.source_name) for reused in assembled.reused_files] == [
        (0, "000004.sst"),
        (1, "000004.sst"),
    ]


def test_dirty_database_joined_with_another_is_refused() -> None:
    sources = [
        source_database(0, 7, live_file(4, b"\x01", b"\x0a")),
        source_database(8, 15, live_file(4, b"\x08", b"\x09")),
    ]
    assert not is_clean(sources[0], KeyGroupRange(0, 15), 128)
    assert is_clean(sources[1], KeyGroupRange(0, 15), 128)
    with pytest.raises(UnsupportedError, match="rows outside of its key groups") as caught:
        assemble(sources, KeyGroupRange(0, 15), 128)
    assert (caught.value.path, caught.value.found) == ("0-7", "000004.sst")


def test_epochs_are_dropped_if_a_source_has_none() -> None:
    def epoch_field(number: int) -> Fields:
        return ((FileTag.EPOCH_NUMBER, bytes([number])),)

    first = source_database(
        0,
        7,
        live_file(4, b"\1", b"\2", fields=epoch_field(3)),
        live_file(5, b"\3", b"\4", level=6, fields=epoch_field(9)),
    )
    second = source_database(8, 15, live_file(4, b"\x08", b"\x0f", fields=epoch_field(2)))
    family = assemble([second, first], KeyGroupRange(0, 9), 128).manifest.column_families[1]
    epochs = [(file.level, file.number_in(FileTag.EPOCH_NUMBER)) for file in family.files]
    assert epochs == [(0, 3), (0, 11), (0, 12), (6, 9)]
    second_without_epochs = replace(second, manifest=source_database(8, 15, live_file(4, b"\x08", b"\x0f")).manifest)
    family = assemble([first, second_without_epochs], KeyGroupRange(0, 9), 128).manifest.column_families[1]
    assert {file.number_in(FileTag.EPOCH_NUMBER) for file in family.files} == {None}


def test_sources_that_overlap_in_a_level_are_refused() -> None:
    sources = [
        source_database(0, 8, live_file(4, b"\1", b"\x08\1", level=1)),
        source_database(8, 15, live_file(4, b"\x08", b"\x0f", level=1)),
    ]
    with pytest.raises(SnapshotError, match="level of a database overlap") as caught:
        assemble(sources, KeyGroupRange(0, 15), 128)
    assert caught.value.state == "state"


def test_source_with_more_levels_than_flink_has_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="more levels") as caught:
        assemble([source_database(0, 15, live_file(4, b"\1", b"\2", level=7))], KeyGroupRange(0, 7), 128)
    assert caught.value.path == "0-15"


def test_ingested_file_in_level_0_is_refused_if_databases_are_joined() -> None:
    sources = [
        source_database(0, 7, live_file(4, b"\1", b"\2")),
        source_database(8, 15, live_file(4, b"\x08", b"\x0f")),
    ]
    sources[0] = replace(sources[0], ingested_names=frozenset(["000004.sst"]))
    with pytest.raises(UnsupportedError, match="ingested") as caught:
        assemble(sources, KeyGroupRange(0, 15), 128)
    assert (caught.value.path, caught.value.found) == ("0-7", "000004.sst")
    assert assemble(sources[:1], KeyGroupRange(0, 3), 128).reused_files
    source_with_deep_file = replace(
        sources[0], manifest=source_database(0, 7, live_file(4, b"\1", b"\2", level=6)).manifest
    )
    assert assemble([source_with_deep_file, sources[1]], KeyGroupRange(0, 15), 128).reused_files


def test_same_sources_give_the_same_assembled_database() -> None:
    sources = [
        source_database(0, 7, live_file(4, b"\1", b"\2")),
        source_database(8, 15, live_file(9, b"\x08", b"\x0f")),
    ]
    assert assemble(sources, KeyGroupRange(0, 9), 128) == assemble(sources, KeyGroupRange(0, 9), 128)
