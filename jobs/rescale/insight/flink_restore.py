"""Computes how Flink itself restores a snapshot at another parallelism: the bytes that each subtask reads and inserts.

`StateAssignmentOperation` gives a new subtask every handle that holds one of its key groups. From a key-group stream
the subtask reads only its own key groups, but inserts every record of these into its backend one by one. It downloads a
RocksDB directory whole (`RocksDBIncrementalRestoreOperation`):

* a single directory is opened unchanged; a range deletion hides the rows outside the subtask's range;
* of several directories, one becomes the base, and the rows of the others are copied into it one by one. The base is
  the directory with the most key groups of the subtask; among equals, the one with the largest share of such key
  groups; among equals again, the first (`RocksDBIncrementalCheckpointUtils.findTheBestStateHandleForInitial`). This is
  so if `state.backend.rocksdb.restore-overlap-fraction-threshold` is 0, the default.

At twice the parallelism, every directory is cut in two, and no row is copied. At one and a half times the parallelism,
some subtasks need two directories, download both and copy rows. Flink 2 can ingest files instead of copying rows
(`state.backend.rocksdb.use-ingest-db-restore-mode`, off by default) if these files hold no rows of other subtasks, such
as an earlier rescale leaves behind. Flink 1.20 has the option but no code behind it. At the snapshot's own parallelism,
every subtask gets its own handle, whatever key groups the handle has.

For a changelog the subtask first restores the materialised part in this way. Then it reads all changes of every handle
that it gets, in order, and applies those of its own key groups (`ChangelogBackendRestoreOperation`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TypeVar

from rescale.flink.key_groups import KeyGroupRange, key_group_range, prefix_size, subtask_of_key_group
from rescale.insight.key_group_sizes import key_group_sizes
from rescale.snapshot.keyed_state import Changelog, Database, KeyedStream
from rescale.snapshot.model import Operator

Handle = TypeVar("Handle", KeyedStream, Database, Changelog)


@dataclass(frozen=True)
class SubtaskRestore:
    """How a new subtask restores its keyed state.

    It reads `read` bytes of the state of the old subtasks `handles`, and inserts `by_record` bytes of records into its
    backend one by one. It opens the database of the old subtask `base` (None for key-group streams), deletes the
    key-group ranges `hidden` (first and last) from it, and copies rows from the databases of the old subtasks `copied`.
    The databases of the old subtasks `foreign` hold rows outside their key groups, so Flink 2 cannot ingest them.
    """

    subtask: int
    key_groups: tuple[int, int]
    handles: tuple[int, ...]
    read: int
    by_record: int
    base: int | None = None
    hidden: tuple[tuple[int, int], ...] = ()
    copied: tuple[int, ...] = ()
    foreign: tuple[int, ...] = ()


@dataclass(frozen=True)
class OperatorRestore:
    """How Flink restores the keyed state of one operator, `state` bytes in all, at another parallelism."""

    operator_id: str
    label: str
    parallelism: int
    new_parallelism: int
    state: int
    subtasks: tuple[SubtaskRestore, ...]


def flink_restore(operator: Operator, parallelism: int) -> OperatorRestore:
    """Return how Flink restores the operator's keyed state at `parallelism`; its max parallelism stays."""
    materialised_parts = [part for changelog in operator.changelogs for part in changelog.base]
    all_databases = [*operator.databases, *(part for part in materialised_parts if isinstance(part, Database))]
    materialised_streams = [part for part in materialised_parts if isinstance(part, KeyedStream)]
    databases_by_subtask = _handles_by_new_subtask(all_databases, operator, parallelism)
    streams_by_subtask = _handles_by_new_subtask(
        (*operator.keyed, *materialised_streams, *operator.raw_keyed), operator, parallelism
    )
    changelogs_by_subtask = _handles_by_new_subtask(operator.changelogs, operator, parallelism)
    operator_without_logs = replace(operator, databases=tuple(all_databases), changelogs=())
    cumulative_bytes = (
        list(accumulate(key_group_sizes(operator_without_logs).sizes, initial=0)) if all_databases else []
    )
    subtasks_with_foreign_rows = {d.subtask for d in all_databases if _holds_foreign_rows(d, operator.max_parallelism)}
    subtasks = []
    for subtask in range(parallelism):
        own_groups = key_group_range(operator.max_parallelism, parallelism, subtask)
        restore = _from_streams(subtask, own_groups, streams_by_subtask[subtask])
        if databases_by_subtask[subtask]:
            restore = _with_databases(
                restore, own_groups, databases_by_subtask[subtask], cumulative_bytes, subtasks_with_foreign_rows
            )
        subtasks.append(_with_logs(restore, own_groups, changelogs_by_subtask[subtask]))
    state_bytes = sum(handle.size for handle in (*operator.managed_keyed, *operator.raw_keyed))
    return OperatorRestore(
        operator.operator_id, operator.label, operator.parallelism, parallelism, state_bytes, tuple(subtasks)
    )


def _handles_by_new_subtask(old_handles: Iterable[Handle], operator: Operator, parallelism: int) -> list[list[Handle]]:
    """Return the handles that each new subtask gets, in the order of the old subtasks."""
    handles_by_subtask: list[list[Handle]] = [[] for _ in range(parallelism)]
    for handle in old_handles:
        if parallelism == operator.parallelism:
            handles_by_subtask[handle.subtask].append(handle)
            continue
        covered_groups = handle.key_groups.intersection(KeyGroupRange(0, operator.max_parallelism - 1))
        first_subtask, last_subtask = (
            subtask_of_key_group(operator.max_parallelism, parallelism, group)
            for group in (covered_groups.first, covered_groups.last)
        )
        for subtask in range(first_subtask, last_subtask + 1):
            handles_by_subtask[subtask].append(handle)
    return handles_by_subtask


def _from_streams(subtask: int, own_groups: KeyGroupRange, streams: Sequence[KeyedStream]) -> SubtaskRestore:
    """Return the restore of a subtask from key-group streams: it reads all their headers and its `own_groups`."""
    group_bytes = 0
    for stream in streams:
        common_groups, first = stream.key_groups.intersection(own_groups), stream.first_key_group
        if len(common_groups):
            extents = stream.groups[common_groups.first - first : common_groups.last + 1 - first]
            group_bytes += sum(extent.length for extent in extents if extent is not None)
    return SubtaskRestore(
        subtask,
        (own_groups.first, own_groups.last),
        tuple(sorted({stream.subtask for stream in streams})),
        read=group_bytes + sum(len(stream.header) for stream in streams),
        by_record=group_bytes,
    )


def _with_databases(
    restore: SubtaskRestore,
    own_groups: KeyGroupRange,
    databases: Sequence[Database],
    cumulative_bytes: Sequence[int],
    subtasks_with_foreign_rows: Collection[int],
) -> SubtaskRestore:
    """Return `restore`, the restore from key-group streams, with the restore from databases added to it.

    `own_groups` are the key groups of the subtask. `cumulative_bytes` has the bytes before each key group, then the
    total. `subtasks_with_foreign_rows` are the old subtasks whose databases hold rows outside their key groups.
    """
    base = best_base([database.key_groups for database in databases], own_groups)
    other_databases = [database for i, database in enumerate(databases) if i != base]
    common_ranges = [database.key_groups.intersection(own_groups) for database in other_databases]
    return replace(
        restore,
        handles=tuple(database.subtask for database in databases),
        read=restore.read + sum(database.size for database in databases),
        by_record=restore.by_record
        + sum(cumulative_bytes[groups.last + 1] - cumulative_bytes[groups.first] for groups in common_ranges),
        base=databases[base].subtask,
        hidden=tuple(_ranges_outside(databases[base].key_groups, own_groups)),
        copied=tuple(database.subtask for database in other_databases),
        foreign=tuple(
            database.subtask
            for database in databases
            if other_databases and database.subtask in subtasks_with_foreign_rows
        ),
    )


def _with_logs(restore: SubtaskRestore, own_groups: KeyGroupRange, logs: Sequence[Changelog]) -> SubtaskRestore:
    """Return `restore`, the restore from materialised state, with the restore from changelogs added to it.

    Changes are assumed to be spread evenly over the key groups of their handle.
    """
    log_bytes = (
        log.log_size * len(log.key_groups.intersection(own_groups)) // max(len(log.key_groups), 1) for log in logs
    )
    return replace(
        restore,
        handles=tuple(sorted({*restore.handles, *(log.subtask for log in logs)})),
        read=restore.read + sum(log.log_size for log in logs),
        by_record=restore.by_record + sum(log_bytes),
    )


def best_base(database_ranges: Sequence[KeyGroupRange], own_groups: KeyGroupRange) -> int:
    """Return the index in `database_ranges` of the database that a subtask with `own_groups` opens as its base."""

    def score(index: int) -> tuple[int, float, int]:
        number_common = len(database_ranges[index].intersection(own_groups))
        return number_common, number_common / max(len(database_ranges[index]), 1), -index

    return max(range(len(database_ranges)), key=score)


def _holds_foreign_rows(database: Database, max_parallelism: int) -> bool:
    """Return whether files of a database hold rows outside its key groups (`RangeCheckResult`); false if unknown.

    Range tombstones count as rows. An earlier rescale by Flink only hides such rows; a compaction drops them.
    """
    prefix_length, own_groups = prefix_size(max_parallelism), database.key_groups
    extreme_groups = (
        int.from_bytes(key[:prefix_length], "big")
        for table in database.tables
        for key in (table.file.smallest_user_key, table.file.largest_user_key)
    )
    return not all(key_group in own_groups for key_group in extreme_groups)


def _ranges_outside(database_range: KeyGroupRange, own_groups: KeyGroupRange) -> list[tuple[int, int]]:
    range_before = (database_range.first, own_groups.first - 1)
    range_after = (own_groups.last + 1, database_range.last)
    return [key_groups for key_groups in (range_before, range_after) if key_groups[0] <= key_groups[1]]
