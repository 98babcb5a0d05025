"""The check of files finds each fault in an assembled database, and reports none in a correct one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.assembly.assembled_database import AssembledDatabase, SourceDatabase
from rescale.rocksdb.assembly.assembly import assemble
from rescale.rocksdb.assembly.assembly_proof import Origin, ResultDatabase, check_assembled
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.manifest import ColumnFamily, Manifest
from rescale.rocksdb.manifest.version_edit import FileTag, LiveFile
from rescale.rocksdb.sst.table import SstTable
from rescale.text.errors import IntegrityError
from support.assembled import flinks_parts, overlapping, random_parts, ranges
from support.flinks_rocksdb import FlinksRocksdb
from support.slow import slow


def result_of(assembled: AssembledDatabase) -> ResultDatabase:
    def table(data: bytes) -> SstTable:
        return SstTable(lambda start, size: data[start : start + size], len(data), "")

    return ResultDatabase(
        "s3://bucket/target",
        assembled.manifest,
        {
            file.name: Origin(file.source_number, file.source_name)
            for file in assembled.reused_files
            if file.name.endswith(".sst")
        },
        {
            file.name: list(table(file.data).range_tombstones())
            for file in assembled.new_files
            if file.name.endswith(".sst")
        },
    )


@pytest.mark.parametrize("seed", [0, *map(slow, range(1, 4))])
@pytest.mark.parametrize("line", ["1.20", "2"])
def test_assembled_random_databases_pass_the_check(
    seed: int, line: str, libraries: dict[str, FlinksRocksdb], tmp_path: Path
) -> None:
    rng = random.Random(seed)
    max_parallelism = rng.choice([16, 128, 1000])
    parts = random_parts(rng, libraries[line], max_parallelism, rng.randint(1, 4), tmp_path)
    for key_groups in ranges(max_parallelism, rng.randint(1, 6)):
        sources = [part.source() for part in overlapping(parts, key_groups)]
        check_assembled(sources, result_of(assemble(sources, key_groups, max_parallelism)), key_groups, max_parallelism)


@pytest.mark.parametrize("name", ["1.20-rocksdb-2to3", "2-rocksdb-2to3", "2-rocksdb-changing"])
def test_assembled_databases_of_flink_pass_the_check(name: str, tmp_path: Path) -> None:
    for (max_parallelism, _), parts in flinks_parts(name, tmp_path).items():
        for part in parts:
            first, last = part.key_groups.first, part.key_groups.last
            for key_groups in (part.key_groups, KeyGroupRange(first, first + 3), KeyGroupRange(last, last)):
                sources = [part.source()]
                check_assembled(
                    sources, result_of(assemble(sources, key_groups, max_parallelism)), key_groups, max_parallelism
                )


def live_file(number: int, smallest: bytes, largest: bytes, age: int, level: int = 0) -> LiveFile:
    keys = InternalKey(smallest, age, 1), InternalKey(largest, age, 1)
    return LiveFile(level, number, 1000, *keys, age, age, ((FileTag.EPOCH_NUMBER, bytes([age])),))


def source_database(first: int, last: int, *files: LiveFile) -> SourceDatabase:
    families = (ColumnFamily(0, "default", ()), ColumnFamily(1, "state", files))
    return SourceDatabase(f"{first}-{last}", Manifest(families, 20, 100), KeyGroupRange(first, last))


SOURCES = [
    source_database(
        0,
        7,
        live_file(4, b"\1", b"\2", 3),
        live_file(5, b"\1", b"\7\1", 4),
        live_file(6, b"\1", b"\3", 1, 6),
        live_file(7, b"\4", b"\7", 2, 6),
    ),
    source_database(8, 15, live_file(4, b"\x08", b"\x0e", 9), live_file(5, b"\x09", b"\x0a", 10)),
]
WANTED_KEY_GROUPS = KeyGroupRange(3, 12)
RIGHT_RESULT = result_of(assemble(SOURCES, WANTED_KEY_GROUPS, 128))
"""Files 10 to 12 are from the first source, whose file 4 has no wanted keys; 13 and 14 from the second; 15 and 16 are
tombstones."""

Change = Callable[[dict[str, LiveFile]], None]


def changed_result(change: Change) -> ResultDatabase:
    """Return the correct result after `change` of its files, which are given by name."""
    files = RIGHT_RESULT.manifest.files
    change(files)
    family = replace(RIGHT_RESULT.manifest.column_families[1], files=tuple(files.values()))
    manifest = replace(RIGHT_RESULT.manifest, column_families=(RIGHT_RESULT.manifest.column_families[0], family))
    names = {file.name for file in files.values()}
    return replace(
        RIGHT_RESULT,
        manifest=manifest,
        origins={name: origin for name, origin in RIGHT_RESULT.origins.items() if name in names},
        tombstones={name: ranges for name, ranges in RIGHT_RESULT.tombstones.items() if name in names},
    )


def test_correct_result_passes_the_check() -> None:
    check_assembled(SOURCES, RIGHT_RESULT, WANTED_KEY_GROUPS, 128)
    assert sorted(RIGHT_RESULT.tombstones) == ["000015.sst", "000016.sst"]
    assert len(RIGHT_RESULT.origins) == 6 - 1


def set_fields(name: str, **fields: object) -> Change:
    def change(files: dict[str, LiveFile]) -> None:
        files[name] = replace(files[name], **fields)  # type: ignore[arg-type]

    return change


def remove_file(name: str) -> Change:
    return lambda files: files.pop(name) and None


def swap_ages(files: dict[str, LiveFile]) -> None:
    """Swap the ages of the second source's two files in level 0."""
    first, other = files["000013.sst"], files["000014.sst"]
    ages = [(file.smallest_sequence, file.largest_sequence) for file in (first, other)]
    files["000013.sst"] = replace(first, smallest_sequence=ages[1][0], largest_sequence=ages[1][1])
    files["000014.sst"] = replace(other, smallest_sequence=ages[0][0], largest_sequence=ages[0][1])


def make_older_than_the_first(files: dict[str, LiveFile]) -> None:
    """Make the second source's files so old that one is older than a file of the first source."""
    for name in ("000013.sst", "000014.sst"):
        file = files[name]
        files[name] = replace(
            file, smallest_sequence=file.smallest_sequence - 26, largest_sequence=file.largest_sequence - 26
        )


def make_epochs_older(files: dict[str, LiveFile]) -> None:
    for name in ("000013.sst", "000014.sst"):
        (epoch,) = files[name].fields
        files[name] = replace(files[name], fields=((epoch[0], bytes([epoch[1][0] - 10])),))


EPOCH_1 = ((FileTag.EPOCH_NUMBER, b"\1"),)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (remove_file("000010.sst"), "is missing"),
        (remove_file("000012.sst"), "is missing"),
        (remove_file("000014.sst"), "is missing"),
        (remove_file("000015.sst"), "not hidden"),
        (remove_file("000016.sst"), "not hidden"),
        (set_fields("000012.sst", level=5), "another level, size or key range"),
        (set_fields("000012.sst", size=999), "another level, size or key range"),
        (set_fields("000012.sst", largest_key=InternalKey(b"\6", 2, 1)), "another level, size or key range"),
        (set_fields("000012.sst", largest_sequence=3), "another level, size or key range"),
        (set_fields("000014.sst", smallest_sequence=31, largest_sequence=31), "order of age"),
        (set_fields("000013.sst", fields=EPOCH_1), "order of age"),
        (set_fields("000013.sst", fields=()), "only some files"),
        (swap_ages, "order of age"),
        (make_older_than_the_first, "interleaved in age"),
        (make_epochs_older, "interleaved in age"),
        (set_fields("000015.sst", level=6), "differs from its entry in the MANIFEST"),
        (set_fields("000015.sst", largest_sequence=99), "differs from its entry in the MANIFEST"),
        (set_fields("000015.sst", smallest_key=InternalKey(b"\2", 41, 15)), "differs from its entry in the MANIFEST"),
        (set_fields("000015.sst", fields=EPOCH_1), "not newer than the rows"),
    ],
)
def test_wrong_manifest_entry_is_refused(change: Change, message: str) -> None:
    with pytest.raises(IntegrityError, match=message) as caught:
        check_assembled(SOURCES, changed_result(change), WANTED_KEY_GROUPS, 128)
    assert caught.value.path == "s3://bucket/target"


def test_range_tombstone_over_key_groups_of_the_subtask_is_refused() -> None:
    def widen_tombstone(files: dict[str, LiveFile]) -> None:
        file = files["000015.sst"]
        files["000015.sst"] = replace(file, largest_key=file.largest_key._replace(user_key=b"\3\5"))

    (tombstone,) = RIGHT_RESULT.tombstones["000015.sst"]
    wrong_result = changed_result(widen_tombstone)
    wrong_result = replace(
        wrong_result, tombstones={**wrong_result.tombstones, "000015.sst": [tombstone._replace(end=b"\3\5")]}
    )
    with pytest.raises(IntegrityError, match="covers key groups of the subtask") as caught:
        check_assembled(SOURCES, wrong_result, WANTED_KEY_GROUPS, 128)
    assert (caught.value.expected, caught.value.found) == ("nothing from 03 to 0d", "01 to 0305")


def test_range_tombstone_that_leaves_rows_of_other_subtasks_visible_is_refused() -> None:
    with pytest.raises(IntegrityError, match="not hidden"):
        check_assembled(SOURCES, RIGHT_RESULT, KeyGroupRange(4, 12), 128)


def test_files_of_unknown_wrong_or_repeated_origin_are_refused() -> None:
    origins_without_one = {name: origin for name, origin in RIGHT_RESULT.origins.items() if name != "000010.sst"}
    with pytest.raises(IntegrityError, match="unknown origin"):
        check_assembled(SOURCES, replace(RIGHT_RESULT, origins=origins_without_one), WANTED_KEY_GROUPS, 128)
    foreign_origins = {**RIGHT_RESULT.origins, "000010.sst": Origin(0, "000099.sst")}
    with pytest.raises(IntegrityError, match=r"is missing|not one of this state"):
        check_assembled(SOURCES, replace(RIGHT_RESULT, origins=foreign_origins), WANTED_KEY_GROUPS, 128)
    repeated_origins = {
        **RIGHT_RESULT.origins,
        "000010.sst": Origin(0, "000005.sst"),
        "000011.sst": Origin(0, "000005.sst"),
    }
    with pytest.raises(IntegrityError, match="in the database twice"):
        check_assembled(SOURCES, replace(RIGHT_RESULT, origins=repeated_origins), WANTED_KEY_GROUPS, 128)


def test_result_with_other_states_is_refused() -> None:
    family = replace(RIGHT_RESULT.manifest.column_families[1], name="other")
    manifest = replace(RIGHT_RESULT.manifest, column_families=(RIGHT_RESULT.manifest.column_families[0], family))
    with pytest.raises(IntegrityError, match="states"):
        check_assembled(SOURCES, replace(RIGHT_RESULT, manifest=manifest), WANTED_KEY_GROUPS, 128)


def test_dirty_source_joined_with_another_is_refused() -> None:
    dirty_source = replace(SOURCES[1], key_groups=KeyGroupRange(9, 15))
    with pytest.raises(IntegrityError, match="key groups of another source"):
        check_assembled([SOURCES[0], dirty_source], RIGHT_RESULT, WANTED_KEY_GROUPS, 128)
