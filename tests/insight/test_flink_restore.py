"""Forecast of Flink's restore; `tests/oracle/test_own_restore.py` compares it with real restores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.key_group_table import Framing
from rescale.insight.flink_restore import OperatorRestore, best_base, flink_restore
from rescale.insight.key_group_sizes import key_group_sizes
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.snapshot.keyed_state import Database, KeyedStream, LiveTable
from support.snapshots import names, opened
from support.synthetic import GROUP_SIZE, database, operator, own_stream

SST_BYTES = 32_000
"""Bytes of every database here: 1,000 for each of its 32 key groups."""


def restore_of_databases(parallelism: int, new_parallelism: int) -> OperatorRestore:
    databases = tuple(database(i, parallelism, 128, SST_BYTES) for i in range(parallelism))
    return flink_restore(operator("counts", parallelism, databases=databases), new_parallelism)


def bytes_read(restore: OperatorRestore) -> int:
    return sum(subtask.read for subtask in restore.subtasks)


def bytes_by_record(restore: OperatorRestore) -> int:
    return sum(subtask.by_record for subtask in restore.subtasks)


def test_twice_the_parallelism_opens_every_database_and_copies_no_record() -> None:
    restore = restore_of_databases(4, 8)
    assert [subtask.handles for subtask in restore.subtasks] == [(0,), (0,), (1,), (1,), (2,), (2,), (3,), (3,)]
    assert [subtask.hidden for subtask in restore.subtasks[:2]] == [((16, 31),), ((0, 15),)]
    assert (bytes_read(restore), bytes_by_record(restore)) == (8 * SST_BYTES, 0)


def test_one_and_a_half_times_the_parallelism_copies_records() -> None:
    restore = restore_of_databases(4, 6)
    second_subtask = restore.subtasks[1]
    assert (second_subtask.key_groups, second_subtask.handles, second_subtask.base, second_subtask.copied) == (
        (22, 42),
        (0, 1),
        1,
        (0,),
    )
    assert second_subtask.hidden == ((43, 63),)
    assert second_subtask.by_record == 10_000
    assert bytes_read(restore) == 8 * SST_BYTES
    assert bytes_by_record(restore) == 20_000


def test_half_the_parallelism_opens_one_database_and_copies_the_other() -> None:
    restore = restore_of_databases(4, 2)
    assert [(subtask.base, subtask.copied) for subtask in restore.subtasks] == [(0, (1,)), (2, (3,))]
    assert [subtask.hidden for subtask in restore.subtasks] == [(), ()]
    assert bytes_by_record(restore) == 2 * SST_BYTES


@pytest.mark.parametrize(("smallest", "largest", "foreign"), [(0, 31, ()), (0, 40, (0,)), (31, 32, (0,))])
def test_database_with_rows_outside_its_key_groups_is_not_ingested(
    smallest: int, largest: int, foreign: tuple[int, ...]
) -> None:
    keys = InternalKey(bytes((smallest, 1)), 0, 1), InternalKey(bytes((largest,)), 0, 1)
    file = LiveFile(6, 9, SST_BYTES, *keys, 0, 0)
    databases = [database(i, 4, 128, SST_BYTES) for i in range(4)]
    databases[0] = replace(databases[0], tables=(LiveTable(0, file, databases[0].files[0].extent),))
    restore = flink_restore(operator("counts", 4, databases=tuple(databases)), 2)
    assert [subtask.foreign for subtask in restore.subtasks] == [foreign, ()]
    doubled_restore = flink_restore(operator("counts", 4, databases=tuple(databases)), 8)
    assert not any(subtask.foreign for subtask in doubled_restore.subtasks), (
        "nothing to ingest where there is one database"
    )


def test_at_the_stored_parallelism_a_database_is_opened_as_it_is() -> None:
    restore = restore_of_databases(4, 4)
    assert bytes_read(restore) == 4 * SST_BYTES
    assert not any(subtask.hidden or subtask.copied for subtask in restore.subtasks)


@pytest.mark.parametrize(
    ("handles", "own_groups", "best_index"),
    [
        ([(0, 9), (10, 29)], (5, 14), 0),  # both overlap in 5 key groups, half of the first handle
        ([(0, 9), (10, 19)], (5, 14), 0),  # the handles overlap equally, so the first wins
        ([(0, 31), (32, 63)], (22, 42), 1),
    ],
)
def test_base_is_the_database_with_most_key_groups_of_the_subtask(
    handles: list[tuple[int, int]], own_groups: tuple[int, int], best_index: int
) -> None:
    assert best_base([KeyGroupRange(*handle) for handle in handles], KeyGroupRange(*own_groups)) == best_index


def test_subtask_reads_only_its_key_groups_of_a_key_group_stream() -> None:
    streams = tuple(own_stream(i, 4, 128, Framing.CANONICAL) for i in range(4))
    restore = flink_restore(operator("counts", 4, keyed=streams), 6)
    header_size = len(streams[0].header)
    assert bytes_by_record(restore) == 128 * GROUP_SIZE
    assert [subtask.handles for subtask in restore.subtasks] == [(0,), (0, 1), (1,), (2,), (2, 3), (3,)]
    assert bytes_read(restore) == bytes_by_record(restore) + 8 * header_size
    assert all(subtask.base is None for subtask in restore.subtasks)


def test_at_the_stored_parallelism_foreign_key_groups_are_dropped() -> None:
    """`StateAssignmentOperation` assigns handles by subtask; the backend reads only its own key groups."""
    streams = tuple(replace(own_stream(i, 2, 128, Framing.HEAP), subtask=1 - i) for i in range(2))
    restore = flink_restore(operator("counts", 2, keyed=streams), 2)
    assert [subtask.handles for subtask in restore.subtasks] == [(0,), (1,)]
    assert bytes_by_record(restore) == 0


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("parallelism", [1, 3, 5])
def test_every_key_group_of_a_real_snapshot_is_read(name: str, parallelism: int) -> None:
    for source_operator in opened(name).operators:
        if source_operator.max_parallelism >= parallelism and (source_operator.keyed or source_operator.databases):
            restore = flink_restore(source_operator, parallelism)
            assert [subtask.subtask for subtask in restore.subtasks] == list(range(parallelism))
            if source_operator.keyed and not source_operator.databases:
                assert bytes_by_record(restore) == sum(key_group_sizes(source_operator).sizes)
            else:
                assert bytes_read(restore) >= sum(database.size for database in source_operator.databases)


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_changelog_is_read_after_its_materialised_state(backend: str) -> None:
    """Every subtask with a changelog reads all of it for the changes of its own key groups."""
    (logged_operator,) = (
        operator for operator in opened(f"2-changelog-over-{backend}").operators if operator.changelogs
    )
    materialised_operator = replace(
        logged_operator,
        changelogs=(),
        keyed=tuple(
            part for changelog in logged_operator.changelogs for part in changelog.base if isinstance(part, KeyedStream)
        ),
        databases=tuple(
            part for changelog in logged_operator.changelogs for part in changelog.base if isinstance(part, Database)
        ),
    )
    log_bytes = sum(changelog.log_size for changelog in logged_operator.changelogs)
    for parallelism, times in ((2, 1), (4, 2), (1, 1)):
        restore_with_log, restore_without_log = (
            flink_restore(logged_operator, parallelism),
            flink_restore(materialised_operator, parallelism),
        )
        assert bytes_read(restore_with_log) - bytes_read(restore_without_log) == times * log_bytes
        assert (
            log_bytes - parallelism
            <= bytes_by_record(restore_with_log) - bytes_by_record(restore_without_log)
            <= log_bytes + parallelism * log_bytes // 50
        )
        assert restore_with_log.state - restore_without_log.state == log_bytes
