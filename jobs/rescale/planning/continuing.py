"""A plan that continues an earlier result (the base): it moves only the changes of operators that can be continued.

The base was made from an earlier checkpoint of the same job, in the requested shape. The plan of a full run is made
first. Then the rekeying of each operator that can be continued is replaced by one that reads only changed files
(`ChangePlace`). An operator can be continued if its result is RocksDB directories that are written row by row; all
other state is moved whole, as in a full run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from rescale.flink.keyed.header import NO_NEW_ID, require_header
from rescale.flink.serializers.subclasses import merge_all_snapshots
from rescale.plan.continuation import BaseDatabase
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.pieces import Piece, piece_of
from rescale.plan.plan import Plan
from rescale.plan.rekeying import PlannedSource, Rekeying
from rescale.planning.plan_files import PlanFiles
from rescale.planning.request.operator_shapes import Shape, refuse_another_shape
from rescale.planning.request.request import Request
from rescale.planning.request.result_files import Files, Format
from rescale.rocksdb.assembly.new_database import place_of_changes
from rescale.rocksdb.database_layout import LEVEL_COUNT
from rescale.runstate.pinned_snapshots import FULL_RUN, Base, refuse_surgery
from rescale.snapshot.databases.unshared_tables import (
    FileBetween,
    FilesBetween,
    UnsharedTables,
    paired_databases,
    replaced_backend,
    unshared_tables,
)
from rescale.snapshot.keyed_state import Database
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.places import ChangePlace, ChangeSide, DatabasePlace, PassedFile, database_place
from rescale.storage.contract import Span
from rescale.storage.side_by_side import side_by_side
from rescale.text.advice import Advice, mention
from rescale.text.errors import RequestError, UnsupportedError
from rescale.text.names import quoted


def refuse_format(request: Request) -> None:
    """Raise `RequestError` if a result with the requested `format` or `files` cannot continue a base."""
    if request.format is Format.CANONICAL:
        raise RequestError(
            "a result can only be continued in RocksDB directories",
            expected="format rocksdb, or keep",
            found=request.format.value,
            advice=FULL_RUN,
        )
    if request.files is Files.REFER:
        raise RequestError(
            "a result that continues a base copies the base's files, so it cannot refer to files of the source",
            expected="files copy",
            found=request.files.value,
            advice=Advice("leave ", mention("files"), " out"),
        )


def continued_plan(
    plan: Plan,
    later: Snapshot,
    base: Base,
    files_between: FilesBetween = MappingProxyType({}),
    refers_to: str | None = None,
) -> Plan:
    """Return a plan that continues `base`; `plan` is the plan of a full run from the checkpoint `later`.

    `files_between`, of checkpoints between the base's source and `later`, show which files only compactions have
    rewritten; such files are not read. The result refers to the SST files of the base in the directory `refers_to`,
    which must be kept as long as the result. Operators that cannot be continued are moved whole, with a warning. Raises
    `UnsupportedError` if no operator can be continued, and `RequestError` if the base belongs to another job, shape or
    request.
    """
    refuse_surgery(plan, base.result.target)
    _refuse_another_job(plan, base)
    if refers_to is not None:
        plan = replace(plan, refers_to=refers_to)
    plan_files = PlanFiles(plan)
    file_numbers = [plan_files.numbers_of(snapshot) for snapshot in (later, base.source_snapshot, base.result_snapshot)]
    operators: list[OperatorPlan] = []
    warnings: list[str] = []
    labels_and_reasons: list[tuple[str, str]] = []
    for index, operator in enumerate(plan.operators):
        continuation = _OperatorContinuation(
            operator, later.operators[index], later, base, files_between, plan_files, *file_numbers
        )
        if not operator.writes_rows:
            operators.append(operator)
            labels_and_reasons += continuation.reasons_not_rewritten()
            continue
        continuation.refuse_rescaled()
        if reason := continuation.obstacle():
            warnings.append(f"operator {operator.label!r} is moved whole, not continued from the base: {reason}")
            labels_and_reasons.append((operator.label, reason))
            operators.append(operator)
            continue
        new_rekeying = continuation.rekeying_of_changes()
        operators.append(replace(operator, rekeying=new_rekeying))
        warnings.append(continuation.warning(new_rekeying, plan))
    if not any(operator.is_continued for operator in operators):
        label, reason = (
            labels_and_reasons[0] if labels_and_reasons else (None, "it has no keyed state in RocksDB directories")
        )
        raise UnsupportedError(
            "no operator of the base can be continued",
            path=base.result.target,
            operator=label,
            expected="an operator whose rows are rewritten into RocksDB directories, because its max parallelism "
            "changes",
            found=reason,
            advice=FULL_RUN,
        )
    return replace(
        plan,
        files=plan_files.source_files(),
        operators=tuple(operators),
        warnings=(*plan.warnings, *warnings),
        continued=base.result,
    )


def rounds_left(base: Base) -> int:
    """Return how many more rounds can write changes on top of the base: RocksDB must have a free level for each.

    Only directories that the base's run wrote row by row count.
    """
    row_written_ids = {operator.operator_id for operator in base.plan.operators if operator.writes_rows}
    places_of_changes = [
        place_of_changes(database.source.manifest)
        for operator in base.result_snapshot.operators
        for database in operator.databases
        if operator.operator_id in row_written_ids and database.source is not None
    ]
    return min((0 if place is None else place.level for place in places_of_changes), default=LEVEL_COUNT)


def _refuse_another_job(plan: Plan, base: Base) -> None:
    plan_label_by_id = {operator.operator_id: operator.label for operator in plan.operators}
    base_label_by_id = {operator.operator_id: operator.label for operator in base.plan.operators}
    if plan_label_by_id.keys() != base_label_by_id.keys():
        differing_id = next(iter(plan_label_by_id.keys() ^ base_label_by_id.keys()))
        raise RequestError(
            "the base is the result of another job, or of another version of the job's graph",
            path=base.result.target,
            operator=plan_label_by_id.get(differing_id) or base_label_by_id[differing_id],
            expected=f"the {len(plan_label_by_id)} operators of {plan.source}",
            found=f"{len(base_label_by_id)} operators"
            + ("" if differing_id in base_label_by_id else ", this one not among them"),
            advice=FULL_RUN,
        )
    shape_by_id = {
        operator.operator_id: Shape(operator.new_parallelism, operator.new_max_parallelism)
        for operator in plan.operators
    }
    refuse_another_shape(
        "the base has another shape", base.plan, shape_by_id, f"request the base's shape, or {FULL_RUN}"
    )


@dataclass(frozen=True)
class _OperatorContinuation:
    """Plans the continuation of an operator.

    `planned` is the operator in the plan of a full run, and `later` the operator in the later checkpoint.
    `later_file_numbers`, `source_file_numbers` and `result_file_numbers` are the plan's numbers of the files of the
    later checkpoint, of the base's source and of the base's result.
    """

    planned: OperatorPlan
    later: Operator
    later_snapshot: Snapshot
    base: Base
    files_between: FilesBetween
    plan_files: PlanFiles
    later_file_numbers: Sequence[int]
    source_file_numbers: Sequence[int]
    result_file_numbers: Sequence[int]

    @property
    def earlier(self) -> Operator:
        """The operator in the earlier checkpoint, the source of the base."""
        return self.base.source_snapshot.operator(self.planned.operator_id)

    @property
    def result(self) -> Operator:
        """The operator in the result of the base."""
        return self.base.result_snapshot.operator(self.planned.operator_id)

    def reasons_not_rewritten(self) -> Iterator[tuple[str, str]]:
        """Yield (label, reason) if a full run would not rewrite the operator's rows into RocksDB directories."""
        if self.later.databases:
            reason = "its max parallelism stays, so a full run rewrites no rows: it copies files, or refers to them"
            yield self.planned.label, reason
        elif self.later.managed_keyed:
            yield self.planned.label, f"its keyed state is kept in {', '.join(self.later.holder_kinds)}"

    def refuse_rescaled(self) -> None:
        """Raise `RequestError` if the job was rescaled or restored since the base was made."""
        earlier_shape, later_shape = (
            Shape(operator.parallelism, operator.max_parallelism) for operator in (self.earlier, self.later)
        )
        if earlier_shape != later_shape:
            raise RequestError(
                "the job was rescaled after the base was made",
                path=self.base.result.target,
                operator=self.planned.label,
                expected=f"{earlier_shape}, as in {self.base.result.source}",
                found=later_shape,
                advice=FULL_RUN,
            )
        if replaced := replaced_backend(self.earlier, self.later):
            subtask, old_backend, new_backend = replaced
            raise RequestError(
                "the job has other state backends than when the base was made: it was restored since, or this is "
                "another job",
                path=self.base.result.target,
                operator=self.planned.label,
                expected=f"backend {old_backend} in subtask {subtask}",
                found=f"backend {new_backend}",
                advice=FULL_RUN,
            )

    def obstacle(self) -> str | None:
        """Return why the operator cannot be continued; None if it can."""
        rekeying = self.planned.rekeying
        assert rekeying is not None
        base_plan = next(plan for plan in self.base.plan.operators if plan.operator_id == self.planned.operator_id)
        rekeying_before = base_plan.rekeying
        for operator, which_checkpoint in ((self.later, "the later"), (self.earlier, "the earlier")):
            if operator.keyed or operator.changelogs or operator.other_keyed or not operator.databases:
                return f"{which_checkpoint} checkpoint does not keep all of its keyed state in RocksDB directories"
        are_all_databases = len(rekeying.databases) == len(rekeying.sources)
        if not are_all_databases or any(NO_NEW_ID in id_table for id_table in self.planned.id_tables):
            return "its timers are raw keyed state in the source, and rows in the result"
        if rekeying_before is None or not base_plan.writes_rows:
            return "the base has no RocksDB directories that were written for it row by row"
        if rekeying_before.key_hash != rekeying.key_hash:
            return f"its keys are hashed by {rekeying.key_hash}, but in the base by {rekeying_before.key_hash}"
        key_serializers = [
            require_header(database.parsed).key_serializer
            for database in (*self.earlier.databases, *self.later.databases)
        ]
        if merge_all_snapshots(key_serializers) is None:
            return "the serializer of its keys has changed"
        later_state_names = {name for database in self.later.databases for name in database.states}
        directory_by_key_groups = {directory.key_groups: directory for directory in self.result.databases}
        for stream in rekeying.streams:
            database = directory_by_key_groups.get(stream.key_group_range)
            if database is None or database.source is None:
                return f"the base has no directory for the key groups {stream.key_group_range}"
            if missing_states := sorted(database.states - later_state_names):
                return f"the base has a state that is not in the later checkpoint: {missing_states[0]}"
            if place_of_changes(database.source.manifest) is None:
                return "no level of RocksDB is free for more changes above the base"
        return None

    def rekeying_of_changes(self) -> Rekeying:
        """Return a rekeying that reads only the changes. Its `bases` are in the order of its `streams`."""
        rekeying = self.planned.rekeying
        assert rekeying is not None
        database_pairs = [(before, after) for _, before, after in paired_databases(self.earlier, self.later)]
        unshared_tables_of_pairs = side_by_side(lambda pair: self._unshared_tables(*pair), database_pairs)
        changes = [
            self._changes(rekeying.header, *pair, *pair_tables)
            for pair, pair_tables in zip(database_pairs, unshared_tables_of_pairs, strict=True)
        ]
        directory_by_key_groups = {directory.key_groups: directory for directory in self.result.databases}
        return replace(
            rekeying,
            sources=tuple(change for change in changes if change is not None),
            bases=tuple(
                self._base_database(directory_by_key_groups[stream.key_group_range]) for stream in rekeying.streams
            ),
        )

    def warning(self, continued: Rekeying, plan: Plan) -> str:
        """Return the plan's warning about this operator, which is continued."""
        read_bytes, total_bytes = (
            sum(part.size for part in continued.changes),
            sum(part.size for part in self.later.databases),
        )
        extents = [table.extent for database in self.result.databases for table in database.tables]
        files = self.base.result_snapshot.files
        spans = [Span(files[part.file][0], part.start, part.length, files[part.file][1]) for part in extents]
        referred_bytes = sum(span.length for span in spans if plan.refers_to_base_file(span))
        copied_bytes = sum(span.length for span in spans) - referred_bytes
        return (
            f"operator {self.planned.label!r} continues {quoted(self.base.result.target)}: of the later checkpoint's "
            f"{total_bytes} bytes, the run reads the {read_bytes} bytes of files in which keys may have changed; "
            f"{f'the result refers to {referred_bytes} bytes of the base; ' if referred_bytes else ''}"
            f"{copied_bytes} bytes of the base are linked, or copied within their store"
            f"{', except for files that were copied ahead' if plan.prepared else ''}"
        )

    def _unshared_tables(
        self, before: Database | None, after: Database | None
    ) -> tuple[UnsharedTables, Mapping[str, FileBetween]]:
        """Return a directory's SST files that may hold changes, and its `files_between` by name."""
        directory = None if before is None else (self.planned.operator_id, before.key_groups)
        files_between = {} if directory is None else self.files_between.get(directory, {})
        size_by_name = {name: file.extent.length for name, file in files_between.items()}
        return unshared_tables(
            self.base.source_snapshot, before, self.later_snapshot, after, size_by_name
        ), files_between

    def _changes(
        self,
        header: Piece,
        before: Database | None,
        after: Database | None,
        tables: UnsharedTables,
        files_between: Mapping[str, FileBetween],
    ) -> PlannedSource | None:
        """Return a directory's changes as a source to read; None if both checkpoints have the same files and states."""
        state_names_of_sides = [
            frozenset[str]() if database is None else database.states for database in (before, after)
        ]
        if not any(tables) and state_names_of_sides[0] == state_names_of_sides[1]:
            return None
        transient_files = tuple(
            PassedFile(state, name, self._extent(files_between[name]))
            for state, name in sorted(tables.transient_tables)
        )
        before_side, after_side = (
            ChangeSide(_place_of(database, file_numbers), tuple(sorted(own_names))) if database is not None else None
            for database, file_numbers, own_names in (
                (before, self.source_file_numbers, tables.gone_names),
                (after, self.later_file_numbers, tables.added_names),
            )
        )
        existing_database = after or before
        assert existing_database is not None
        place = ChangePlace[Piece](
            header,
            (existing_database.key_groups.first, existing_database.key_groups.last),
            before_side,
            after_side,
            transient_files,
        )
        return PlannedSource(place, None, _scaled_sizes(existing_database.key_group_sizes, place.size))

    def _extent(self, file: FileBetween) -> Extent:
        return file.extent._replace(file=self.plan_files.number_of(file.uri, file.pin))

    def _base_database(self, database: Database) -> BaseDatabase:
        place = place_of_changes(database.known_source.manifest)
        assert place is not None
        return BaseDatabase(_place_of(database, self.result_file_numbers), place)


def _place_of(database: Database, file_numbers: Sequence[int]) -> DatabasePlace[Piece]:
    header = database.header_extent
    return database_place(database, piece_of(header._replace(file=file_numbers[header.file]))).renumbered(file_numbers)


def _scaled_sizes(sizes: Sequence[int], total_size: int) -> tuple[int, ...]:
    """Return numbers in proportion to `sizes` that add up to about `total_size`."""
    old_total = max(sum(sizes), 1)
    return tuple(size * total_size // old_total for size in sizes)
