"""Does a result hold what its source holds? Compared with the source itself, read back from storage, without a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rescale.errors import IntegrityError, SnapshotError, UnsupportedError
from rescale.execution.progress import Progress
from rescale.execution.sources.byte_digests import MODULUS
from rescale.execution.sources.record_sources import sources_of
from rescale.execution.sources.spans import adjacent, bounded_runs, extent_runs
from rescale.execution.tasks import Tasks
from rescale.execution.validation.compare import Comparer, ElementCheck, FileCheck, GroupCheck, Tally
from rescale.execution.validation.coverage import (
    GroupPair,
    broadcast_states,
    check_directory,
    check_elements,
    check_metadata,
    check_references,
    check_rekeyed,
    goes_by_record,
    pair_database_files,
    pair_key_groups,
)
from rescale.execution.validation.record_compare import RecordCheck, RecordComparer, RecordTally
from rescale.execution.validation.record_proof import RecordProof, record_proof
from rescale.execution.validation.timer_coverage import check_raw_timers
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.slot import Slot
from rescale.snapshot.model import ElementStream, Operator, Snapshot
from rescale.snapshot.opening import open_candidate
from rescale.storage.locations import parent
from rescale.storage.store import open_store


class OperatorProof(NamedTuple):
    """What was found equal for one operator: counts, bytes, and a digest (hex) over all of it."""

    operator_id: str
    label: str
    parallelism: int
    max_parallelism: int
    key_groups: int
    elements: int
    broadcast_copies: int
    bytes: int
    digest: str
    records: RecordProof | None


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


def validate_result(
    source: Snapshot, result: Snapshot, key_hashes: Mapping[str, str], tasks: Tasks
) -> list[OperatorProof]:
    """One proof for each operator; `IntegrityError` names the first thing that does not add up.

    `key_hashes` names, by operator id, how the keys of those operators hash whose records got new key groups.
    """
    check_metadata(source, result)
    check_references(source, result)
    check_directory(result, [entry.uri for entry in open_store(result.directory).list(result.directory)])
    checks: list[GroupCheck | ElementCheck | FileCheck] = []
    operators = list(zip(source.operators, result.operators, strict=True))
    record_checks: list[RecordCheck] = []
    for i, (old, new) in enumerate(operators):
        if goes_by_record(old, new):
            check_rekeyed(old, new)
            check_raw_timers(old, new)
            if old.entry.max_parallelism == new.entry.max_parallelism:
                raw = pair_key_groups(_without_timers(old), _without_timers(new), Slot.RAW_KEYED)
                checks += _group_checks(i, old, raw, Slot.RAW_KEYED)
            record_checks += _record_checks(i, old, new, key_hashes.get(old.entry.operator_id))
        else:
            for slot in (Slot.KEYED, Slot.RAW_KEYED):
                checks += _group_checks(i, old, pair_key_groups(old, new, slot), slot)
            checks += [FileCheck(i, old.label, pair) for pair in pair_database_files(old, new)]
        for slot in (Slot.OPERATOR, Slot.RAW_OPERATOR):
            check_elements(old, new, slot)
            for in_result, operator in ((False, old), (True, new)):
                checks += _element_checks(i, old.label, _element_streams(operator, slot), slot, in_result)
    units = [(_weight(check), check) for check in (*checks, *record_checks)]
    progress = Progress("validate", sum(weight for weight, _ in units))
    tallies: dict[int, list[Tally]] = defaultdict(list)
    record_tallies: dict[int, list[RecordTally]] = defaultdict(list)
    # A twin of this run may be writing the same bytes again: of the result, the content counts and not the version.
    unpinned = result.contents.unpinned()
    compare = _Comparers(Comparer(source.contents, unpinned), RecordComparer(source.contents, unpinned))
    for tally in tasks.run(compare, units, progress):
        if isinstance(tally, RecordTally):
            record_tallies[tally.operator].append(tally)
        else:
            tallies[tally.operator].append(tally)
    return [_proof(old, new, tallies[i], record_tallies[i], key_hashes) for i, (old, new) in enumerate(operators)]


def _without_timers(operator: Operator) -> Operator:
    """Timers are compared with the records of other states."""
    return replace(operator, raw_keyed=operator.own_raw_keyed)


@dataclass(frozen=True)
class _Comparers:
    """One for whole key groups and elements, one for records."""

    bytewise: Comparer
    by_record: RecordComparer

    def __call__(self, check: GroupCheck | ElementCheck | FileCheck | RecordCheck) -> Tally | RecordTally:
        return self.by_record(check) if isinstance(check, RecordCheck) else self.bytewise(check)


def _element_streams(operator: Operator, slot: Slot) -> Sequence[ElementStream]:
    return operator.operator if slot is Slot.OPERATOR else operator.raw_operator


def _group_checks(i: int, operator: Operator, pairs: Iterable[GroupPair], slot: Slot) -> Iterator[GroupCheck]:
    def follows(last: GroupPair, pair: GroupPair) -> bool:
        if last.source is None or pair.source is None or last.table is not None or pair.table is not None:
            return False
        return adjacent(last.source, pair.source) and adjacent(last.result, pair.result)

    for run in bounded_runs(pairs, follows, lambda pair: pair.result.length):
        yield GroupCheck(i, operator.label, slot, tuple(run))


def _element_checks(
    i: int, label: str, streams: Iterable[ElementStream], slot: Slot, in_result: bool
) -> Iterator[ElementCheck]:
    for stream in streams:
        for state in stream.states:
            for run in extent_runs(state.elements):
                yield ElementCheck(i, label, slot, in_result, stream.subtask, state.name, state.mode, tuple(run))


def _record_checks(i: int, old: Operator, new: Operator, key_hash: str | None) -> Iterator[RecordCheck]:
    for in_result, operator in ((False, old), (True, new)):
        for holder in operator.record_holders:
            for source in sources_of(holder, operator.entry.max_parallelism):
                yield RecordCheck(i, old.label, in_result, key_hash, new.entry.max_parallelism, source)
    for holder in old.doubled_timers:
        for source in sources_of(holder, old.entry.max_parallelism):
            yield RecordCheck(i, old.label, False, key_hash, new.entry.max_parallelism, source, doubled=True)


def _weight(check: GroupCheck | ElementCheck | FileCheck | RecordCheck) -> int:
    """Bytes that the check reads."""
    if isinstance(check, RecordCheck):
        return check.records.size
    if isinstance(check, ElementCheck):
        return sum(extent.length for extent in check.elements)
    if isinstance(check, FileCheck):
        return check.pair.source.length + check.pair.result.length
    return sum(pair.result.length + (pair.source.length if pair.source else 0) for pair in check.pairs)


def _proof(
    old: Operator,
    new: Operator,
    tallies: Sequence[Tally],
    record_tallies: Sequence[RecordTally],
    key_hashes: Mapping[str, str],
) -> OperatorProof:
    records = record_proof(old, record_tallies, key_hashes)
    rewritten = [tally for tally in record_tallies if tally.in_result]
    digests = [tally.digest for tally in tallies if tally.in_result]
    digests += [digest.placed for tally in rewritten for digest in tally.states.values()]
    for slot in (Slot.OPERATOR, Slot.RAW_OPERATOR):
        _compare_bags(old, [tally for tally in tallies if tally.slot is slot])
        _compare_broadcasts(old, new, slot, [tally for tally in tallies if tally.slot is slot])
    written = [tally for tally in tallies if tally.in_result]
    dealt = [tally for tally in written if tally.mode is not None]
    copies = sum(tally.mode is DistributionMode.BROADCAST for tally in dealt)
    return OperatorProof(
        operator_id=old.entry.operator_id,
        label=old.label,
        parallelism=new.entry.parallelism,
        max_parallelism=new.entry.max_parallelism,
        key_groups=sum(tally.items for tally in written if tally.mode is None) + sum(t.groups for t in rewritten),
        elements=sum(tally.items for tally in dealt) - copies,
        broadcast_copies=copies,
        bytes=sum(tally.size for tally in written) + sum(tally.size for tally in rewritten),
        digest=f"{sum(digests) % MODULUS:032x}",
        records=records,
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
    for state, subtask in broadcast_states(_element_streams(old, slot)):
        holders[state].add(subtask)
    same_parallelism = old.entry.parallelism == new.entry.parallelism
    for state, subtasks in holders.items():
        wanted = subtasks if same_parallelism else set(range(new.entry.parallelism))
        source, result = copies[state, False], copies[state, True]
        if result.keys() != wanted:
            raise IntegrityError(
                "a broadcast state is missing in a subtask",
                operator=old.label,
                state=state,
                expected=f"a copy in {len(wanted)} subtasks",
                found=f"copies in {len(result)}",
            )
        for subtask, found in result.items():
            if found not in source.values():
                raise IntegrityError(
                    "a copy of a broadcast state is none of the source's",
                    operator=old.label,
                    state=state,
                    found=f"another one in subtask {subtask}",
                )
