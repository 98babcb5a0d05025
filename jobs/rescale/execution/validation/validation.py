"""Does a result hold what its source holds? Compared with the source itself, read back from storage, without a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from rescale.errors import IntegrityError, SnapshotError, UnsupportedError
from rescale.execution.progress import Progress
from rescale.execution.sources.byte_digests import MODULUS
from rescale.execution.tasks import Tasks
from rescale.execution.validation.check_units import Check, Checks, list_checks
from rescale.execution.validation.compare import Comparer, ElementCheck, Tally
from rescale.execution.validation.coverage import (
    broadcast_states,
    check_directory,
    check_metadata,
    check_references,
    check_rekeyed,
    is_compared_by_record,
)
from rescale.execution.validation.directories import WholeFiles, whole_files
from rescale.execution.validation.record_compare import RecordCheck, RecordComparer, RecordTally
from rescale.execution.validation.record_proof import record_proof
from rescale.execution.validation.stored_sums import StoredSums, proven_by_sums
from rescale.execution.validation.timer_coverage import check_raw_timers
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.slot import OPERATOR_SLOTS, Slot
from rescale.planning.values.proof import Proof
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.opening import open_candidate
from rescale.storage.locations import is_s3, parent
from rescale.storage.second_look import changed_sides, misread
from rescale.storage.side_by_side import side_by_side
from rescale.storage.store import open_store
from rescale.target.certificate import CertifiedChecksums, CertifiedDirectories, CertifiedOperator


@dataclass(frozen=True)
class SnapshotPair:
    """What is held against each other, as `_metadata`, the streams' headers and MANIFESTs have it.

    `key_hashes` and `by_files` as `compared` had them; `checks` are left to do, and `sums` are of what needs none.
    """

    source: Snapshot
    result: Snapshot
    key_hashes: Mapping[str, str]
    by_files: Sequence[Mapping[int, WholeFiles]]
    checks: Checks
    sums: StoredSums | None = None

    @property
    def operators(self) -> list[tuple[Operator, Operator]]:
        return list(zip(self.source.operators, self.result.operators, strict=True))


def open_result(candidate_uri: str, target: str, source: Snapshot | None = None) -> Snapshot:
    """The snapshot that the metadata at `candidate_uri` would make of `target`; `IntegrityError` if it is none.

    It may refer to files of the `source`, if that is given.
    """
    places = {parent(uri) for uri, _ in source.files[1:]} if source is not None else set()
    try:
        return open_candidate(candidate_uri, target, sorted(places))
    except (SnapshotError, UnsupportedError) as error:
        raise IntegrityError(
            f"the result does not read as a snapshot: {error.what}",
            **{detail: getattr(error, detail) for detail in error.DETAILS},
        ) from None


def compared(
    source: Snapshot, result: Snapshot, key_hashes: Mapping[str, str], proof: Proof = Proof.RECORDS
) -> SnapshotPair:
    """Both, after all was compared that is no state; `IntegrityError` names the first thing that does not add up.

    `key_hashes` names, by operator id, how the keys of those operators hash whose records got new key groups. What
    hides foreign rows in RocksDB directories is looked at in any case, for who reads rows does not see them.
    """
    check_metadata(source, result)
    check_references(source, result)
    check_directory(result, [entry.uri for entry in open_store(result.directory).list(result.directory)])
    for old, new in zip(source.operators, result.operators, strict=True):
        if is_compared_by_record(old, new):
            check_rekeyed(old, new)
            check_raw_timers(old, new)
    whole = whole_files(source, result)
    by_files = whole if proof is Proof.FILES else [{} for _ in whole]
    checks = list_checks(source, result, key_hashes, by_files)
    if proof is Proof.RECORDS:
        return SnapshotPair(source, result, key_hashes, by_files, checks)
    sums = proven_by_sums(source, result, checks)
    return SnapshotPair(source, result, key_hashes, by_files, sums.checks, sums)


def validate_result(pair: SnapshotPair, tasks: Tasks) -> list[CertifiedOperator]:
    """Compares the state; one proof for each operator. `IntegrityError` names the first thing that does not add up."""
    source, result, checks = pair.source, pair.result, pair.checks
    progress = Progress("validate", sum(weight for weight, _ in checks.units))
    tallies: dict[int, list[Tally]] = defaultdict(list)
    record_tallies: dict[int, list[RecordTally]] = defaultdict(list)
    # A twin of this run may be writing the same bytes again: of the result, the content counts and not the version.
    unpinned = result.contents.unpinned()
    compare = _Comparers(Comparer(source.contents, unpinned), RecordComparer(source.contents, unpinned))
    local = not is_s3(source.directory) and not is_s3(result.directory)  # S3's client is Python
    seen = tasks.run(compare, checks.units, progress, threads_will_do=local and checks.threads_will_do)
    proven = pair.sums.tallies if pair.sums is not None else []
    for tally in (*proven, *side_by_side(compare, checks.small), *seen):
        if isinstance(tally, RecordTally):
            record_tallies[tally.operator].append(tally)
        else:
            tallies[tally.operator].append(tally)
    proofs = []
    for i, (old, new) in enumerate(pair.operators):
        try:
            proof = _proof(old, new, tallies[i], record_tallies[i], pair.key_hashes, pair.by_files[i])
            proofs.append(replace(proof, checksums=_checksum_proof(pair.sums, i)))
        except IntegrityError as error:
            summed = [(weight, check) for weight, check in checks.units if _is_summed(check) and check.operator == i]
            again = tasks.run(compare, summed, Progress("look again", sum(weight for weight, _ in summed)))
            dealt = [tally for tally in tallies[i] if tally.mode is not None]
            if changed := changed_sides(_by_side(dealt, record_tallies[i]), _by_side(again)):
                raise misread(changed, error) from None
            raise
    return proofs


def _is_summed(check: Check) -> bool:
    """Whether it looks at one side, and only sums tell whether they are equal."""
    return isinstance(check, ElementCheck | RecordCheck)


def _by_side(*tallies: Iterable[Tally | RecordTally]) -> list[list[str]]:
    """Of the source and of the result, in an order that does not depend on who was first."""
    return [sorted(repr(tally) for tally in chain(*tallies) if tally.in_result is side) for side in (False, True)]


@dataclass(frozen=True)
class _Comparers:
    """One for whole key groups and elements, one for records."""

    bytewise: Comparer
    by_record: RecordComparer

    def __call__(self, check: Check) -> Tally | RecordTally:
        return self.by_record(check) if isinstance(check, RecordCheck) else self.bytewise(check)


def _proof(
    old: Operator,
    new: Operator,
    tallies: Sequence[Tally],
    record_tallies: Sequence[RecordTally],
    key_hashes: Mapping[str, str],
    by_files: Mapping[int, WholeFiles],
) -> CertifiedOperator:
    records = record_proof(old, record_tallies, key_hashes)
    rewritten = [tally for tally in record_tallies if tally.in_result]
    digests = [tally.digest for tally in tallies if tally.in_result]
    digests += [digest.placed for tally in rewritten for digest in tally.states.values()]
    for slot in OPERATOR_SLOTS:
        _compare_bags(old, [tally for tally in tallies if tally.slot is slot])
        _compare_broadcasts(old, new, slot, [tally for tally in tallies if tally.slot is slot])
    written = [tally for tally in tallies if tally.in_result]
    dealt = [tally for tally in written if tally.mode is not None]
    copies = sum(tally.mode is DistributionMode.BROADCAST for tally in dealt)
    return CertifiedOperator(
        operator_id=old.operator_id,
        label=old.label,
        parallelism=new.parallelism,
        max_parallelism=new.max_parallelism,
        key_groups=sum(tally.items for tally in written if tally.mode is None) + sum(t.groups for t in rewritten),
        elements=sum(tally.items for tally in dealt) - copies,
        broadcast_copies=copies,
        bytes=sum(tally.size for tally in written) + sum(tally.size for tally in rewritten),
        digest=f"{sum(digests) % MODULUS:032x}",
        records=records,
        directories=_directory_proof(new, by_files.values()) if by_files else None,
    )


def _checksum_proof(sums: StoredSums | None, operator: int) -> CertifiedChecksums | None:
    algorithms = sums.algorithms.get(operator) if sums is not None else None
    if sums is None or not algorithms:
        return None
    size = sum(tally.size for tally in sums.tallies if tally.operator == operator)
    return CertifiedChecksums(tuple(sorted(algorithms)), size)


def _directory_proof(operator: Operator, whole: Collection[WholeFiles]) -> CertifiedDirectories:
    return CertifiedDirectories(
        by_files=len(whole),
        by_records=len(operator.databases) - len(whole),
        files_referred_to=sum(one.same for one in whole),
        files_copied=sum(len(one.copies) for one in whole),
        deleted_ranges=sum(one.deleted_ranges for one in whole),
    )


def _compare_bags(operator: Operator, tallies: Iterable[Tally]) -> None:
    """SPLIT and UNION states: the same elements as a bag, wherever they went."""
    bags: dict[str, list[tuple[int, int]]] = defaultdict(lambda: [(0, 0), (0, 0)])
    for tally in tallies:
        if tally.mode is not DistributionMode.BROADCAST:
            count, total = bags[tally.state][tally.in_result]
            bags[tally.state][tally.in_result] = (count + tally.items, (total + tally.digest) % MODULUS)
    for state, (expected, found) in bags.items():
        if expected != found:
            raise IntegrityError(
                "elements of operator state were lost, doubled or changed",
                operator=operator.label,
                state=state,
                expected=f"{expected[0]} elements with digest {expected[1]:032x}",
                found=f"{found[0]} elements with digest {found[1]:032x}",
            )


def _compare_broadcasts(old: Operator, new: Operator, slot: Slot, tallies: Iterable[Tally]) -> None:
    """BROADCAST states: every subtask that must have a copy has one, and it is one of the source's."""
    copies: dict[tuple[str, bool], dict[int, int]] = defaultdict(dict)
    for tally in tallies:
        if tally.mode is DistributionMode.BROADCAST:
            copies[tally.state, tally.in_result][tally.subtask] = tally.digest
    holders = defaultdict(set)
    for state, subtask in broadcast_states(old.elements_in(slot)):
        holders[state].add(subtask)
    same_parallelism = old.parallelism == new.parallelism
    for state, subtasks in holders.items():
        wanted = subtasks if same_parallelism else set(range(new.parallelism))
        source, result = copies[state, False], copies[state, True]
        if result.keys() != wanted:
            raise IntegrityError(
                "a broadcast state is missing in a subtask",
                operator=old.label,
                state=state,
                expected=f"a copy in {len(wanted)} subtasks",
                found=f"copies in {len(result)}",
            )
        known = set(source.values())
        for subtask, found in result.items():
            if found not in known:
                raise IntegrityError(
                    "a copy of a broadcast state is none of the source's",
                    operator=old.label,
                    state=state,
                    found=f"another one in subtask {subtask}",
                )
