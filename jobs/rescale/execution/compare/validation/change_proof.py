"""Proof of a result that continues an earlier one (its base), without reading what did not change.

    source side    the changes from the earlier checkpoint to the later one (`change_records`): the new value, or the
                   deletion, of every key that has changed
    result side    the changes from the base to the result: the value, or the deletion, of every key in files that only
                   the result has; RocksDB must find the same for each of these keys in the result

The changes must have the same digests on both sides, state by state, and on both sides each key must lie in the key
group of its hash. Every file of the base is in the result, below the changes (`base_files`). So the result holds the
later checkpoint's value of every key that has changed, and the base's value of every other key. The certificate of the
base says that the base equals the earlier checkpoint. A sample of the source side's changes is also looked up in the
later checkpoint, through RocksDB.

The proof does not take the files to read from the plan: it finds those that differ between the snapshots of a side,
without those that only compactions have rewritten (`unshared_tables`). From the plan it takes only the places of files
that were written and compacted away between the checkpoints, if the later MANIFEST mentions a file of that name and
size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from rescale.execution.compare.source_digests import sum_digests
from rescale.execution.compare.validation.base_files import compare_files_of_base, files_above_base, files_of_base
from rescale.execution.compare.validation.compare import FileCheck
from rescale.execution.compare.validation.directories import result_with_tables
from rescale.execution.compare.validation.headers import RERUN_ADVICE
from rescale.execution.compare.validation.read_back import read_side, tallies_by_side
from rescale.execution.compare.validation.record_proof import hash_rule_status
from rescale.execution.progress import ByteAction, Progress
from rescale.execution.sources.change_records import ChangeReader
from rescale.execution.tasks.protocol import Tasks
from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.blocks.record_digest import RecordDigester, StateDigest
from rescale.flink.keyed.blocks.record_marks import LENGTH_SIZE
from rescale.flink.keyed.composite_key import composite_keys
from rescale.flink.keyed.header import KeyedHeader, require_header
from rescale.flink.keyed.new_key_groups import NewKeyGroups
from rescale.plan.plan import Plan
from rescale.rocksdb.manifest.version_edit import DELETION
from rescale.runstate.certificate import (
    CertifiedChanges,
    CertifiedChecksums,
    CertifiedOperator,
    CertifiedRecords,
    CertifiedState,
)
from rescale.runstate.follower.compared_copies import NO_COPIES, compared_copies
from rescale.runstate.pinned_snapshots import Base, open_base
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.databases.unshared_tables import UnsharedTables, paired_databases, unshared_tables
from rescale.snapshot.keyed_state import Database
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Snapshot
from rescale.snapshot.places import ChangePlace, ChangeSide, PassedFile, database_place
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.contract import Pin
from rescale.storage.rereads import changed_sides, misread_error
from rescale.storage.side_by_side import side_by_side
from rescale.text.errors import IntegrityError, RequestError

_CHANGES_PER_LOOK_UP = 64
"""Interval at which changes are also looked up in the later checkpoint, through RocksDB; 1 means every change."""


def continued_operator_indices(plan: Plan) -> tuple[int, ...]:
    """Return the indexes of the operators that continue an earlier result."""
    return tuple(operator_index for operator_index, operator in enumerate(plan.operators) if operator.is_continued)


def prove_changes(
    plan: Plan, later: Snapshot, result: Snapshot, operator_indices: Sequence[int], tasks: Tasks
) -> dict[int, ProvenChanges]:
    """Prove the operators with the indexes `operator_indices` by their changes; return the proofs by index.

    Raises `IntegrityError` if a proof fails, and `RequestError` if the base is no longer the result that the plan
    names.
    """
    assert plan.continued is not None
    base = open_base(plan.continued.target, plan.allow_prefixes)
    if base.result != plan.continued:
        raise RequestError(
            "the base is not the result that the plan was made for",
            path=plan.continued.target,
            expected=f"the result of plan {plan.continued.plan[:8]}",
            found=f"the result of plan {base.result.plan[:8]}",
            advice="plan again",
        )
    return ChangeProof(plan, with_tables(later), result, base, operator_indices).prove(tasks)


class ChangeCheck(NamedTuple):
    """The changes of one RocksDB directory in the source or the result, to be digested.

    A key's group is checked with `max_parallelism`; the digests use the group under `new_max_parallelism`.
    """

    operator_index: int
    label: str
    in_result: bool
    key_hash: str | None
    max_parallelism: int
    new_max_parallelism: int
    place: ChangePlace[KeyedHeader | None]


class ChangeTally(NamedTuple):
    """Digests of changes, by state, and the number of deletions among them."""

    operator_index: int
    in_result: bool
    digests_by_state: dict[str, StateDigest]
    deletion_count: int
    size: int


@dataclass(frozen=True)
class ChangeComparer:
    """Digests the changes of one directory; pickled into the tasks."""

    source: SnapshotFiles
    result: SnapshotFiles

    def __call__(self, check: ChangeCheck) -> ChangeTally:
        work = partial(self._tally, check)
        return read_side(work, check.label, in_result=check.in_result, advice=RERUN_ADVICE)

    def _tally(self, check: ChangeCheck) -> ChangeTally:
        header = require_header(check.place.header)
        keys = None if check.key_hash is None else composite_keys(header, check.key_hash)
        key_groups = NewKeyGroups(keys, check.max_parallelism, check.new_max_parallelism)
        digester, deletion_count = RecordDigester([False] * len(header.states)), 0  # values are compared byte by byte
        files, check_every = (self.result, 1) if check.in_result else (self.source, _CHANGES_PER_LOOK_UP)
        for changes in ChangeReader(check.max_parallelism, files, check.place, check_every):
            digester.add(changes, key_groups.assign(changes)[0])
            deletion_count += int(np.count_nonzero(changes.data[changes.key_ends + LENGTH_SIZE] == DELETION))
        named_digests = zip(header.names, digester.digests(), strict=True)
        digests_by_state = {name: digest for name, digest in named_digests if digest.records}
        return ChangeTally(check.operator_index, check.in_result, digests_by_state, deletion_count, check.place.size)


@dataclass(frozen=True)
class ChangeProof:
    """Proof that operators of `result` hold what `base` holds, plus the changes from the base's source to `later`.

    `operator_indices` are indexes into `later.operators` and `result.operators`.
    """

    plan: Plan
    later: Snapshot
    result: Snapshot
    base: Base
    operator_indices: Sequence[int]

    def prove(self, tasks: Tasks) -> dict[int, ProvenChanges]:
        """Return the proofs by index of the operator. Raises `IntegrityError` for the first difference."""
        result = result_with_tables(self.result)
        joined_files = (
            _JoinedFiles(self.later, self.base.source_snapshot, self.plan.contents.pinned_files),
            _JoinedFiles(self.result, self.base.result_snapshot, is_pinned=False),
        )
        change_checks: list[ChangeCheck] = []
        copy_checks: list[FileCheck] = []
        for operator_index in self.operator_indices:
            change_checks += self._change_checks(
                operator_index, self.base.source_snapshot, self.later, joined_files[0], in_result=False
            )
            change_checks += self._change_checks(
                operator_index, self.base.result_snapshot, result, joined_files[1], in_result=True
            )
            base_operator = self.base.result_snapshot.operator(self.later.operators[operator_index].operator_id)
            copy_checks += files_of_base(operator_index, base_operator, result.operators[operator_index])
        comparer = ChangeComparer(joined_files[0].contents, joined_files[1].contents)

        def tallies_of(checks: Sequence[ChangeCheck], phase: str) -> list[ChangeTally]:
            sized_checks = [(check.place.size, check) for check in checks]
            progress = Progress(phase, sum(size for size, _ in sized_checks), ByteAction.READ_ON_BOTH_SIDES)
            return tasks.run(comparer, sized_checks, progress, threads_suffice=True)

        tallies = tallies_of(change_checks, "compare changes")
        known_copies = compared_copies(self.plan.target) if self.plan.prepared else NO_COPIES
        checksums_by_operator = compare_files_of_base(
            self.base.result_snapshot.contents, self.result.contents, copy_checks, tasks, known_copies
        )
        proofs_by_operator = {}
        for operator_index in self.operator_indices:
            own_tallies = [tally for tally in tallies if tally.operator_index == operator_index]
            base_file_count = sum(check.operator_index == operator_index for check in copy_checks)
            try:
                proofs_by_operator[operator_index] = self._prove_operator(
                    operator_index, own_tallies, base_file_count, checksums_by_operator.get(operator_index)
                )
            except IntegrityError as error:
                own_changes = [check for check in change_checks if check.operator_index == operator_index]
                tallies_read_again = tallies_of(own_changes, "read again")
                if unstable_sides := changed_sides(tallies_by_side(own_tallies), tallies_by_side(tallies_read_again)):
                    raise misread_error(unstable_sides, error) from None
                raise
        return proofs_by_operator

    def _change_checks(
        self, operator_index: int, earlier: Snapshot, later: Snapshot, files: _JoinedFiles, *, in_result: bool
    ) -> Iterator[ChangeCheck]:
        new = later.operators[operator_index]
        old = earlier.operator(new.operator_id)
        key_hash = self.plan.key_hashes.get(self.later.operators[operator_index].operator_id)
        pairs = paired_databases(old, new)

        def unshared_tables_of(
            pair: tuple[KeyGroupRange, Database | None, Database | None],
        ) -> tuple[UnsharedTables, tuple[PassedFile, ...]]:
            key_groups, before, after = pair
            if in_result:
                return files_above_base(before, after, new), ()
            files_between = self._files_between(operator_index, key_groups, files)
            sizes = {name: extent.length for name, extent in files_between.items()}
            tables = unshared_tables(earlier, before, later, after, sizes)
            return tables, tuple(
                PassedFile(state, name, files_between[name]) for state, name in sorted(tables.transient_tables)
            )

        tables_of_pairs = side_by_side(unshared_tables_of, pairs)
        for (key_groups, before, after), (tables, transient_files) in zip(pairs, tables_of_pairs, strict=True):
            sides = (
                None if before is None else _change_side(before, files.earlier_indexes, tables.gone_names),
                None if after is None else _change_side(after, None, tables.added_names),
            )
            header = require_header((after or before or old.databases[0]).parsed)
            if not any(tables) and before is not None and after is not None and before.states == after.states:
                continue
            yield ChangeCheck(
                operator_index,
                new.label,
                in_result,
                key_hash,
                new.max_parallelism,
                self.result.operators[operator_index].max_parallelism,
                ChangePlace(header, (key_groups.first, key_groups.last), *sides, transient_files),
            )

    def _files_between(self, operator_index: int, key_groups: KeyGroupRange, files: _JoinedFiles) -> dict[str, Extent]:
        """Return, by name, the transient files that the plan reads for a directory (`ChangePlace.transient`)."""
        rekeying = self.plan.operators[operator_index].rekeying
        assert rekeying is not None
        return {
            file.name: file.extent._replace(file=files.first_other_index + file.extent.file)
            for change in rekeying.changes
            if change.key_groups == (key_groups.first, key_groups.last)
            for file in change.transient
        }

    def _prove_operator(
        self,
        operator_index: int,
        tallies: Sequence[ChangeTally],
        base_file_count: int,
        checksums: CertifiedChecksums | None,
    ) -> ProvenChanges:
        operator = self.later.operators[operator_index]
        digests = _equal_digests(tallies, operator.label)
        change_count = sum(digest.records for digest in digests.values())
        deletion_count = sum(tally.deletion_count for tally in tallies if tally.in_result)
        changes = CertifiedChanges(
            written=change_count - deletion_count, deleted=deletion_count, files_of_base=base_file_count
        )
        states = {name: CertifiedState(d.records, f"{d.digest:032x}") for name, d in sorted(digests.items())}
        key_hash = self.plan.key_hashes.get(operator.operator_id)
        size = sum(tally.size for tally in tallies if tally.in_result)
        return ProvenChanges(changes, states, size, key_hash, checksums)


def _equal_digests(tallies: Sequence[ChangeTally], label: str) -> dict[str, StateDigest]:
    """Return the digests, by state, of an operator's changes.

    Raises `IntegrityError` if they differ between the source side and the result side.
    """
    source_digests, result_digests = (
        sum_digests(tally.digests_by_state for tally in tallies if tally.in_result is in_result)
        for in_result in (False, True)
    )
    for state in sorted(source_digests.keys() | result_digests.keys()):
        source_digest = source_digests.get(state, StateDigest())
        result_digest = result_digests.get(state, StateDigest())
        if source_digest != result_digest:
            raise IntegrityError(
                "the changes since the base differ between the result and the source",
                operator=label,
                state=state,
                expected=f"{source_digest.records} changed keys with digest {source_digest.digest:032x}",
                found=f"{result_digest.records} changed keys with digest {result_digest.digest:032x}",
                advice=RERUN_ADVICE,
            )
    return source_digests


class ProvenChanges(NamedTuple):
    """Proof of an operator by its changes: the digests of the changes, by state.

    `size` is the number of bytes of the changes in the result. `checksums` says which bytes of the base the store's
    checksums proved.
    """

    changes: CertifiedChanges
    states: dict[str, CertifiedState]
    size: int
    key_hash: str | None
    checksums: CertifiedChecksums | None

    def added_to(self, operator: CertifiedOperator) -> CertifiedOperator:
        """Return `operator`, which proves the operator's other state, with this proof added."""
        records = operator.records or CertifiedRecords(0, self.key_hash, hash_rule_status(self.key_hash), 0, {})
        compared_count = records.compared + self.changes.written + self.changes.deleted
        states = dict(sorted({**records.states, **self.states}.items()))
        return replace(
            operator,
            bytes=operator.bytes + self.size,
            records=replace(records, compared=compared_count, states=states),
            changes=self.changes,
            checksums=self.checksums,
        )


class _JoinedFiles:
    """The files of the later snapshot, of the earlier one and of other checkpoints, in one list.

    The later snapshot's files keep their indexes. The earlier snapshot's files have the indexes in `earlier_indexes`.
    The other files begin at index `first_other_index`.
    """

    def __init__(
        self,
        later: Snapshot,
        earlier: Snapshot,
        other_files: Sequence[tuple[str, Pin | None]] = (),
        *,
        is_pinned: bool = True,
    ) -> None:
        later_files = later.contents if is_pinned else later.contents.without_pins()
        snapshot_files = (*later_files.pinned_files, *earlier.contents.pinned_files)
        self.contents = SnapshotFiles((*snapshot_files, *other_files), later.metadata_bytes)
        self.earlier_indexes = range(len(later_files.pinned_files), len(snapshot_files))
        self.first_other_index = len(snapshot_files)


def _change_side(
    database: Database, file_indexes: Sequence[int] | None, own_names: frozenset[str]
) -> ChangeSide[KeyedHeader | None]:
    place = database_place(database, database.parsed)
    return ChangeSide(place if file_indexes is None else place.renumbered(file_indexes), tuple(sorted(own_names)))
