"""Compares two checkpoints of a job by their files alone, to estimate a round of a live rescale.

RocksDB's incremental checkpoints share files. A round reads the SST files that only one of the checkpoints has, except
those that differ only because of compactions (`unshared_tables`). All other state is moved whole in each round. The
estimates use the rates of `durations`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from rescale.insight.durations import (
    CORES,
    PROCESS_START_SECONDS,
    RECORD_RATES,
    ROW_RATES,
    S3_CONNECTION_RATE,
    SECONDS_PER_NEW_DIRECTORY,
    WORKERS_START_SECONDS,
    Rates,
    change_seconds,
)
from rescale.planning.little_work import LITTLE_BYTES
from rescale.planning.request.operator_shapes import Shape
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.databases.table_sizes import open_table
from rescale.snapshot.databases.unshared_tables import (
    differing_tables,
    paired_databases,
    replaced_backend,
    unshared_tables,
)
from rescale.snapshot.keyed_state import Database, LiveTable
from rescale.snapshot.model import Operator, Snapshot
from rescale.storage.locations import is_s3
from rescale.storage.side_by_side import side_by_side
from rescale.text.errors import RequestError

_LEAST_SPEEDUP = 2
"""A live rescale pays off if its last round is at least this many times as fast as a full run."""

_SAME_START_ADVICE = "name two checkpoints of the same job, between which the job was not started again"

SummedField = Literal["bytes", "shared", "added", "gone", "read", "entries", "whole"]
"""A field of `OperatorChanges` that can be added up."""


class OperatorChanges(msgspec.Struct, frozen=True):
    """How far an operator's SST files differ between two checkpoints, and what a round of a live rescale would read.

    `bytes` are the bytes of all SST files in the later checkpoint. Of the SST files, `shared` are the bytes in both
    checkpoints, `added` the bytes only in the later one, and `gone` the bytes only in the earlier one. A round reads
    `read` bytes of `added` and `gone`, with `entries` rows, so at most this many rows have changed. `whole` are the
    bytes of state that each round moves whole; if this is keyed state, `reason` says why.
    """

    operator_id: str
    label: str
    bytes: int
    shared: int
    added: int
    gone: int
    read: int
    entries: int
    whole: int
    reason: str | None


class FileChanges(msgspec.Struct, frozen=True):
    """Comparison of the files of checkpoint `b` with those of `a`, an earlier checkpoint of the same job.

    `seconds` is the time between the checkpoints, None if the store does not know when they were written.
    `round_seconds` and `run_seconds` estimate a round from `b`, and a full run from `b`, at the parallelism of the job.
    `pays` says whether a round is so much faster than a full run that a live rescale pays off.
    """

    a: str
    b: str
    seconds: float | None
    operators: tuple[OperatorChanges, ...]
    round_seconds: float
    run_seconds: float
    pays: bool

    @classmethod
    def estimated(
        cls,
        a: str,
        b: str,
        seconds: float | None,
        operators: tuple[OperatorChanges, ...],
        *,
        directory_count: int,
        new_directory_count: int,
        s3_side_count: int,
    ) -> FileChanges:
        """Return the changes of the operators with the estimates of a round and of a full run.

        `s3_side_count` (0, 1 or 2) says how many of source and target are in S3. `directory_count` counts the RocksDB
        directories of which a round reads files, and `new_directory_count` the base's directories to which rows of
        these files belong. Every row counts as a changed key.
        """
        size, bytes_read, bytes_whole = (_total(operators, field) for field in ("bytes", "read", "whole"))

        def estimated_seconds(row_bytes: int, change_core_seconds: float = 0) -> float:
            core_seconds = _core_seconds(row_bytes, ROW_RATES, s3_side_count) + _core_seconds(
                bytes_whole, RECORD_RATES, s3_side_count
            )
            return PROCESS_START_SECONDS + (core_seconds + change_core_seconds) / CORES

        full_run_seconds = estimated_seconds(size) + (WORKERS_START_SECONDS if size + bytes_whole > LITTLE_BYTES else 0)
        last_round_seconds = estimated_seconds(
            bytes_read, change_seconds(_total(operators, "entries"), directory_count, new_directory_count)
        )
        return cls(
            a,
            b,
            seconds,
            operators,
            last_round_seconds,
            full_run_seconds,
            pays=size > 0 and last_round_seconds * _LEAST_SPEEDUP <= full_run_seconds,
        )

    def total(self, field: SummedField) -> int:
        return _total(self.operators, field)

    @property
    def seconds_of_subtask(self) -> float:
        """Estimated seconds that one more subtask of every operator with changes adds to a round."""
        return sum(operator.read > 0 for operator in self.operators) * SECONDS_PER_NEW_DIRECTORY / CORES


def file_changes(earlier: Snapshot, later: Snapshot) -> FileChanges:
    """Compare the files of two checkpoints of the same job.

    Raises `RequestError` if `later` is not the later checkpoint, or if the checkpoints belong to different jobs or to
    different starts of a job. Raises `SnapshotError` or `UnsupportedError` if a MANIFEST cannot be read
    (`with_tables`).
    """
    _refuse_other_operators(earlier, later)
    operators_before = {operator.operator_id: operator for operator in earlier.operators}
    for operator in later.operators:
        _refuse_restored(earlier, operators_before[operator.operator_id], later, operator)
    if earlier.metadata.checkpoint_id >= later.metadata.checkpoint_id:
        raise RequestError(
            "B is not later than A",
            path=later.directory,
            expected=f"a checkpoint of the same job with a number above {earlier.metadata.checkpoint_id}",
            found=f"number {later.metadata.checkpoint_id}",
            advice="name the earlier checkpoint first",
        )
    earlier, later = with_tables(earlier), with_tables(later)
    changes_of_operators = [
        _changes(earlier, earlier.operator(operator.operator_id), later, operator) for operator in later.operators
    ]
    operators, directory_count = (
        tuple(changes for changes, _ in changes_of_operators),
        sum(count for _, count in changes_of_operators),
    )
    new_directory_count = sum(
        min(len(operator.databases), changes.entries)
        for operator, changes in zip(later.operators, operators, strict=True)
    )
    seconds = (
        None
        if earlier.metadata_time is None or later.metadata_time is None
        else (later.metadata_time - earlier.metadata_time).total_seconds()
    )
    s3_side_count = sum(is_s3(snapshot.directory) for snapshot in (earlier, later))
    return FileChanges.estimated(
        earlier.directory,
        later.directory,
        seconds,
        operators,
        directory_count=directory_count,
        new_directory_count=new_directory_count,
        s3_side_count=s3_side_count,
    )


def _refuse_other_operators(earlier: Snapshot, later: Snapshot) -> None:
    """Raise `RequestError` if the operators differ, because then no result of `earlier` can be a base for `later`."""
    label_by_id_a, label_by_id_b = (
        {operator.operator_id: operator.label for operator in side.operators} for side in (earlier, later)
    )
    differing_id = next(iter(label_by_id_a.keys() ^ label_by_id_b.keys()), None)
    if differing_id is not None:
        raise RequestError(
            "A and B belong to different jobs, or to different versions of the job's graph",
            path=later.directory,
            operator=label_by_id_a.get(differing_id) or label_by_id_b[differing_id],
            expected=f"the {len(label_by_id_a)} operators of {earlier.directory}",
            found=f"{len(label_by_id_b)} operators"
            + (", this one not among them" if differing_id in label_by_id_a else ""),
            advice=_SAME_START_ADVICE,
        )


def _refuse_restored(earlier: Snapshot, before: Operator, later: Snapshot, after: Operator) -> None:
    """Raise `RequestError` if the operator has another shape or other state backends in `later` than in `earlier`.

    In this case, a follower makes a new base (`continuing`).
    """
    old_shape, new_shape = (Shape(operator.parallelism, operator.max_parallelism) for operator in (before, after))
    if before.databases and after.databases and old_shape != new_shape:
        raise RequestError(
            "the operator has another shape in B: the job was rescaled in between, or A and B belong to different jobs",
            path=later.directory,
            operator=after.label,
            expected=f"{old_shape}, as in {earlier.directory}",
            found=new_shape,
            advice=_SAME_START_ADVICE,
        )
    if replaced := replaced_backend(before, after):
        subtask, old_backend, new_backend = replaced
        raise RequestError(
            "the operator has other state backends in B: the job was started again in between, or A and B belong "
            "to different jobs",
            path=later.directory,
            operator=after.label,
            expected=f"backend {old_backend} in subtask {subtask}, as in {earlier.directory}",
            found=f"backend {new_backend}",
            advice=_SAME_START_ADVICE,
        )


def _total(operators: Iterable[OperatorChanges], field: SummedField) -> int:
    return sum(getattr(operator, field) for operator in operators)


def _changes(earlier: Snapshot, before: Operator, later: Snapshot, after: Operator) -> tuple[OperatorChanges, int]:
    """Return the changes of an operator, and the number of its RocksDB directories of which a round reads files."""
    reason = _obstacle(before, after)
    if reason is not None or not after.databases:
        return OperatorChanges(
            operator_id=after.operator_id,
            label=after.label,
            bytes=0,
            shared=0,
            added=0,
            gone=0,
            read=0,
            entries=0,
            whole=after.bytes,
            reason=reason,
        ), 0
    directory_pairs = [(old, new) for _, old, new in paired_databases(before, after)]
    size = gone_bytes = added_bytes = 0
    for old, new in directory_pairs:
        gone_names, added_names = differing_tables(earlier, old, later, new)
        size += _bytes(_tables(new))
        gone_bytes += _bytes(table for table in _tables(old) if table.file.name in gone_names)
        added_bytes += _bytes(table for table in _tables(new) if table.file.name in added_names)
    tables_of_pairs = side_by_side(lambda pair: unshared_tables(earlier, pair[0], later, pair[1], {}), directory_pairs)
    read_tables = [
        (snapshot, table)
        for (old, new), tables in zip(directory_pairs, tables_of_pairs, strict=True)
        for snapshot, database, names in ((earlier, old, tables.gone_names), (later, new, tables.added_names))
        for table in _tables(database)
        if table.file.name in names
    ]
    changes = OperatorChanges(
        operator_id=after.operator_id,
        label=after.label,
        bytes=size,
        shared=size - added_bytes,
        added=added_bytes,
        gone=gone_bytes,
        read=_bytes(table for _, table in read_tables),
        entries=sum(
            side_by_side(lambda pair: open_table(pair[1], pair[0].contents).properties.entry_count, read_tables)
        ),
        whole=after.bytes - sum(database.size for database in after.databases),
        reason=None,
    )
    return changes, sum(bool(tables.gone_names or tables.added_names) for tables in tables_of_pairs)


def _obstacle(before: Operator, after: Operator) -> str | None:
    """Return why a round moves the operator's keyed state whole; None if it does not, or if there is no keyed state."""
    if not after.managed_keyed and not after.other_keyed:
        return None
    for operator, name in ((before, "A"), (after, "B")):
        if operator.keyed or operator.changelogs or operator.other_keyed or not operator.databases:
            return f"{name} does not keep all of its keyed state in RocksDB directories"
    return None


def _tables(database: Database | None) -> tuple[LiveTable, ...]:
    return () if database is None else database.tables


def _bytes(tables: Iterable[LiveTable]) -> int:
    return sum(table.extent.length for table in tables)


def _core_seconds(size: int, rates: Rates, s3_side_count: int) -> float:
    """Return the seconds in which one core moves and compares `size` bytes."""
    return (
        size / rates.bytes_moved_per_second
        + size / rates.bytes_compared_per_second
        + size * s3_side_count / S3_CONNECTION_RATE
    )
