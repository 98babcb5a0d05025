"""Validation of a result: reads it back from storage and compares it with its source. Validation needs no plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from rescale.execution.compare.validation.check_units import Check, Checks, list_checks
from rescale.execution.compare.validation.compare import Comparer, ElementCheck, Tally
from rescale.execution.compare.validation.coverage import (
    broadcast_states,
    check_directory,
    check_metadata,
    check_raw_timers,
    check_references,
    check_rekeyed,
    is_compared_by_record,
)
from rescale.execution.compare.validation.directories import DirectoryFiles, match_directories
from rescale.execution.compare.validation.inline_names import check_inline_names
from rescale.execution.compare.validation.read_back import tallies_by_side
from rescale.execution.compare.validation.record_compare import RecordCheck, RecordComparer, RecordTally
from rescale.execution.compare.validation.record_proof import record_proof
from rescale.execution.compare.validation.store_checksums import StoreChecksums, prove_by_checksums
from rescale.execution.progress import ByteAction, Progress
from rescale.execution.sources.byte_digests import MODULUS
from rescale.execution.tasks.protocol import Tasks
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.slot import OPERATOR_SLOTS, Slot
from rescale.plan.proof import Proof
from rescale.runstate.certificate import CertifiedChecksums, CertifiedDirectories, CertifiedOperator, CertifiedTables
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.reading.opening import open_candidate
from rescale.storage.contract import Pin
from rescale.storage.locations import is_s3, parent
from rescale.storage.rereads import changed_sides, misread_error
from rescale.storage.side_by_side import side_by_side
from rescale.storage.store import open_store
from rescale.text.errors import IntegrityError, SnapshotError, UnsupportedError


@dataclass(frozen=True)
class SnapshotPair:
    """A source and a result whose `_metadata`, stream headers and MANIFESTs agree, with the `checks` that remain.

    `key_hashes` has the names of key hashes by operator id. `proven_by_files` has, for each operator, the directories
    that are proven by their files, by subtask. `proven_by_checksums` has state that the store's checksums prove.
    """

    source: Snapshot
    result: Snapshot
    key_hashes: Mapping[str, str]
    proven_by_files: Sequence[Mapping[int, DirectoryFiles]]
    checks: Checks
    proven_by_checksums: StoreChecksums | None = None

    @property
    def operators(self) -> list[tuple[Operator, Operator]]:
        return list(zip(self.source.operators, self.result.operators, strict=True))


def open_result(candidate_uri: str, target: str, files_elsewhere: Iterable[str] = ()) -> Snapshot:
    """Open the snapshot that `target` becomes with the metadata at `candidate_uri`.

    Besides files of the target, the metadata may refer to files in the directories of `files_elsewhere` (URIs). Raises
    `IntegrityError` if the metadata is unreadable.
    """
    try:
        return open_candidate(candidate_uri, target, sorted(set(map(parent, files_elsewhere))))
    except (SnapshotError, UnsupportedError) as error:
        raise error.recast(IntegrityError, f"the result cannot be read as a snapshot: {error.what}") from None


def compare_snapshots(
    source: Snapshot,
    result: Snapshot,
    key_hashes: Mapping[str, str],
    proof: Proof = Proof.RECORDS,
    proven_by_changes: Collection[int] = (),
    base_files: Mapping[str, Pin] = MappingProxyType({}),
) -> SnapshotPair:
    """Compare everything except state; return the snapshots with the checks of state that remain.

    `key_hashes` has the names of key hashes by operator id, for operators whose records got new key groups. Range
    tombstones of RocksDB directories are always checked, since readers of rows do not see the rows that tombstones
    hide. `proven_by_changes` has the indexes of operators that `change_proof` proves. `base_files` are the files of a
    base to which the result may refer, as in `check_references`. Raises `IntegrityError` if source and result differ.
    """
    check_metadata(source, result)
    check_inline_names(result)
    check_references(source, result, base_files)
    check_directory(result, [entry.uri for entry in open_store(result.directory).list(result.directory)])
    for old, new in zip(source.operators, result.operators, strict=True):
        if is_compared_by_record(old, new):
            check_rekeyed(old, new)
            check_raw_timers(old, new)
    whole_directories = match_directories(source, result)
    proven_by_files = whole_directories if proof is Proof.FILES else [{} for _ in whole_directories]
    checks = list_checks(source, result, key_hashes, proven_by_files, proven_by_changes)
    if proof is not Proof.FILES:
        return SnapshotPair(source, result, key_hashes, proven_by_files, checks)
    store_checksums = prove_by_checksums(source, result, checks)
    return SnapshotPair(source, result, key_hashes, proven_by_files, store_checksums.checks, store_checksums)


def validate_result(pair: SnapshotPair, tasks: Tasks) -> list[CertifiedOperator]:
    """Compare the state; return a proof for each operator. Raises `IntegrityError` for the first difference."""
    source, result, checks = pair.source, pair.result, pair.checks
    progress = Progress("validate", sum(weight for weight, _ in checks.units), ByteAction.READ_ON_BOTH_SIDES)
    tallies_by_operator: dict[int, list[Tally]] = defaultdict(list)
    record_tallies_by_operator: dict[int, list[RecordTally]] = defaultdict(list)
    # A second run of the same plan may be writing the same bytes again, so files of the result are not pinned.
    result_files = result.contents.without_pins()
    comparers = _Comparers(Comparer(source.contents, result_files), RecordComparer(source.contents, result_files))
    # S3's client is written in Python, so its reads run in parallel only in processes.
    is_local = not is_s3(source.directory) and not is_s3(result.directory)
    task_tallies = tasks.run(comparers, checks.units, progress, threads_suffice=is_local and checks.threads_suffice)
    proven_tallies = pair.proven_by_checksums.tallies if pair.proven_by_checksums is not None else []
    for tally in (*proven_tallies, *side_by_side(comparers, checks.small_files), *task_tallies):
        if isinstance(tally, RecordTally):
            record_tallies_by_operator[tally.operator_index].append(tally)
        else:
            tallies_by_operator[tally.operator_index].append(tally)
    proofs = []
    for operator_index, (old, new) in enumerate(pair.operators):
        try:
            proof = _operator_proof(
                old,
                new,
                tallies_by_operator[operator_index],
                record_tallies_by_operator[operator_index],
                pair.key_hashes,
                pair.proven_by_files[operator_index],
            )
            proofs.append(replace(proof, checksums=_checksum_proof(pair.proven_by_checksums, operator_index)))
        except IntegrityError as error:
            one_sided_checks = [  # their sums were compared only now, so no task has read them again
                (weight, check)
                for weight, check in checks.units
                if isinstance(check, ElementCheck | RecordCheck) and check.operator_index == operator_index
            ]
            tallies_read_again = tasks.run(
                comparers,
                one_sided_checks,
                Progress("read again", sum(weight for weight, _ in one_sided_checks), ByteAction.READ_ON_BOTH_SIDES),
            )
            element_tallies = [tally for tally in tallies_by_operator[operator_index] if tally.mode is not None]
            if unstable_sides := changed_sides(
                tallies_by_side(element_tallies, record_tallies_by_operator[operator_index]),
                tallies_by_side(tallies_read_again),
            ):
                raise misread_error(unstable_sides, error) from None
            raise
    return proofs


@dataclass(frozen=True)
class _Comparers:
    """Performs checks: `byte_comparer` checks key groups, elements and files, `record_comparer` checks records."""

    byte_comparer: Comparer
    record_comparer: RecordComparer

    def __call__(self, check: Check) -> Tally | RecordTally:
        return self.record_comparer(check) if isinstance(check, RecordCheck) else self.byte_comparer(check)


def _operator_proof(
    old: Operator,
    new: Operator,
    tallies: Sequence[Tally],
    record_tallies: Sequence[RecordTally],
    key_hashes: Mapping[str, str],
    proven_by_files: Mapping[int, DirectoryFiles],
) -> CertifiedOperator:
    records = record_proof(old, record_tallies, key_hashes)
    result_record_tallies = [tally for tally in record_tallies if tally.in_result]
    digests = [tally.digest_sum for tally in tallies if tally.in_result]
    digests += [
        digest.digest_with_groups for tally in result_record_tallies for digest in tally.digests_by_state.values()
    ]
    for slot in OPERATOR_SLOTS:
        _compare_bags(old, [tally for tally in tallies if tally.slot is slot])
        _compare_broadcasts(old, new, slot, [tally for tally in tallies if tally.slot is slot])
    result_tallies = [tally for tally in tallies if tally.in_result]
    element_tallies = [tally for tally in result_tallies if tally.mode is not None]
    copy_count = sum(tally.mode is DistributionMode.BROADCAST for tally in element_tallies)
    return CertifiedOperator(
        operator_id=old.operator_id,
        label=old.label,
        parallelism=new.parallelism,
        max_parallelism=new.max_parallelism,
        key_groups=sum(tally.item_count for tally in result_tallies if tally.mode is None)
        + sum(t.key_group_count for t in result_record_tallies),
        elements=sum(tally.item_count for tally in element_tallies) - copy_count,
        broadcast_copies=copy_count,
        bytes=sum(tally.size for tally in result_tallies) + sum(tally.size for tally in result_record_tallies),
        digest=f"{sum(digests) % MODULUS:032x}",
        records=records,
        directories=_directory_proof(new, proven_by_files.values()) if proven_by_files else None,
        tables=_table_proof(result_tallies),
    )


def _table_proof(tallies: Iterable[Tally]) -> CertifiedTables | None:
    block_checks = [tally.are_blocks_checked for tally in tallies if tally.are_blocks_checked is not None]
    return CertifiedTables(block_checks.count(True), block_checks.count(False)) if block_checks else None


def _checksum_proof(store_checksums: StoreChecksums | None, operator_index: int) -> CertifiedChecksums | None:
    algorithms = store_checksums.algorithms_by_operator.get(operator_index) if store_checksums is not None else None
    if store_checksums is None or not algorithms:
        return None
    size = sum(tally.size for tally in store_checksums.tallies if tally.operator_index == operator_index)
    return CertifiedChecksums(tuple(sorted(algorithms)), size)


def _directory_proof(operator: Operator, directories: Collection[DirectoryFiles]) -> CertifiedDirectories:
    return CertifiedDirectories(
        by_files=len(directories),
        by_records=len(operator.databases) - len(directories),
        files_referred_to=sum(directory.same_file_count for directory in directories),
        files_copied=sum(len(directory.copies) for directory in directories),
        deleted_ranges=sum(directory.deleted_range_count for directory in directories),
    )


def _compare_bags(operator: Operator, tallies: Iterable[Tally]) -> None:
    """Check that SPLIT and UNION states have the same bag of elements, wherever they are stored."""
    bags: dict[str, list[tuple[int, int]]] = defaultdict(lambda: [(0, 0), (0, 0)])
    for tally in tallies:
        if tally.mode is not DistributionMode.BROADCAST:
            element_count, digest_sum = bags[tally.state][tally.in_result]
            bags[tally.state][tally.in_result] = (
                element_count + tally.item_count,
                (digest_sum + tally.digest_sum) % MODULUS,
            )
    for state, (source_bag, result_bag) in bags.items():
        if source_bag != result_bag:
            raise IntegrityError(
                "elements of operator state were lost, doubled or changed",
                operator=operator.label,
                state=state,
                expected=f"{source_bag[0]} elements with digest {source_bag[1]:032x}",
                found=f"{result_bag[0]} elements with digest {result_bag[1]:032x}",
            )


def _compare_broadcasts(old: Operator, new: Operator, slot: Slot, tallies: Iterable[Tally]) -> None:
    """Check that every subtask that must have a copy of a BROADCAST state has one of the source's copies."""
    copy_digests: dict[tuple[str, bool], dict[int, int]] = defaultdict(dict)
    for tally in tallies:
        if tally.mode is DistributionMode.BROADCAST:
            copy_digests[tally.state, tally.in_result][tally.subtask] = tally.digest_sum
    subtasks_by_state = defaultdict(set)
    for state, subtask in broadcast_states(old.element_streams_in(slot)):
        subtasks_by_state[state].add(subtask)
    keeps_parallelism = old.parallelism == new.parallelism
    for state, subtasks in subtasks_by_state.items():
        expected_subtasks = subtasks if keeps_parallelism else set(range(new.parallelism))
        source_copy_digests, result_copy_digests = copy_digests[state, False], copy_digests[state, True]
        if result_copy_digests.keys() != expected_subtasks:
            raise IntegrityError(
                "a broadcast state is missing in a subtask",
                operator=old.label,
                state=state,
                expected=f"a copy in {len(expected_subtasks)} subtasks",
                found=f"copies in {len(result_copy_digests)}",
            )
        known_digests = set(source_copy_digests.values())
        for subtask, copy_digest in result_copy_digests.items():
            if copy_digest not in known_digests:
                raise IntegrityError(
                    "a copy of a broadcast state differs from all copies in the source",
                    operator=old.label,
                    state=state,
                    found=f"another copy in subtask {subtask}",
                )
