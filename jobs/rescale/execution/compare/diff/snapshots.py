"""Comparison of two snapshots: a digest of everything first, then a search in the states that differ."""

from __future__ import annotations

from collections.abc import Iterator

from rescale.execution.compare.diff.contents import ElementFormatter
from rescale.execution.compare.diff.copies import CopyDigester
from rescale.execution.compare.diff.differences import OTHER_TYPE, BothFiles, Side, amount, diffed_state
from rescale.execution.compare.diff.first_pass import FirstPass, StatePart, digest_all
from rescale.execution.compare.diff.items import (
    UNORDERED_ENTRIES,
    DigestedItems,
    ItemComparison,
    compare_bags,
    compare_copies,
    compare_key_groups,
)
from rescale.execution.compare.diff.operator_differences import (
    element_types,
    opaque_state,
    operator_differences,
    shape_of,
    state_types,
)
from rescale.execution.compare.diff.pairs import OperatorPair, pair_operators
from rescale.execution.compare.diff.record_search import RecordDifferences, differing_records
from rescale.execution.progress import ByteAction, Progress
from rescale.execution.tasks.protocol import Tasks
from rescale.flink.keyed.blocks.record_digest import StateDigest
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.slot import Slot
from rescale.report.differences import DiffDocument, DiffedOperator, DiffedState, ListedDifference, StateAmount
from rescale.snapshot.model import Snapshot
from rescale.snapshot.surgery import NO_SURGERY, Surgery, apply_surgery

_TTL_REMARK = "state with a time to live stores the time at which each value was last written or read"


def diff_snapshots(a: Snapshot, b: Snapshot, tasks: Tasks, surgery: Surgery = NO_SURGERY) -> DiffDocument:
    """Compare two snapshots state by state, after applying the declared `surgery` to `a`.

    Raises `UnsupportedError` if they cannot be compared, `SnapshotError` if one of them cannot be read.
    """
    a = apply_surgery(a, surgery)
    pairs = pair_operators(a, b)
    files: BothFiles = (a.contents, b.contents)
    first_pass = digest_all(pairs, files, tasks)
    comparison = _Comparison(files, first_pass, tasks)
    operators = (
        *_master_states(a, b),
        *(comparison.compare_operator(pair_index, pair) for pair_index, pair in enumerate(pairs)),
    )
    is_equal = all(operator.equal for operator in operators)
    return DiffDocument("equal" if is_equal else "different", is_equal, a.directory, b.directory, operators, surgery)


def _master_states(a: Snapshot, b: Snapshot) -> Iterator[DiffedOperator]:
    """Compare the state of hooks of the job manager (`MasterTriggerRestoreHook`), as if they were an operator."""
    payloads_by_side = [{master.name: master.payload for master in snapshot.metadata.masters} for snapshot in (a, b)]
    states = [
        state
        for name in dict.fromkeys([*payloads_by_side[0], *payloads_by_side[1]])
        if (state := opaque_state(name, "MASTER HOOK", payloads_by_side[0].get(name), payloads_by_side[1].get(name)))
    ]
    if states:
        is_equal = all(state.equal for state in states)
        yield DiffedOperator("", "job manager", is_equal, None, None, (), tuple(states))


class _Comparison:
    """Compares the two operators of each pair, by the digests that the first pass computed."""

    def __init__(self, files: BothFiles, first_pass: FirstPass, tasks: Tasks) -> None:
        self._files = files
        self._first_pass = first_pass
        self._tasks = tasks

    def compare_operator(self, pair_index: int, pair: OperatorPair) -> DiffedOperator:
        a, b = pair.sides
        coordinators = [side.entry.coordinator.data if side and side.entry.coordinator else None for side in pair.sides]
        coordinator = opaque_state("coordinator", "COORDINATOR", *coordinators)
        states = (
            *self._compare_records(pair_index, pair),
            *self._compare_parts(pair_index, pair),
            *([coordinator] if coordinator else []),
        )
        differences = tuple(operator_differences(pair))
        is_equal = not differences and all(state.equal for state in states)
        return DiffedOperator(pair.operator_id, pair.label, is_equal, shape_of(a), shape_of(b), differences, states)

    def _compare_records(self, pair_index: int, pair: OperatorPair) -> Iterator[DiffedState]:
        """Compare the keyed states of a pair, state by state, if the pair is compared by record."""
        digests_a, digests_b = self._first_pass.digests_by_pair[pair_index]
        dropped_states = pair.sides[0].dropped_states if pair.sides[0] else ()
        digests_a = {name: digest for name, digest in digests_a.items() if name not in dropped_states}
        types_by_side = [state_types(operator) for operator in pair.sides]
        names = (
            sorted({*digests_a, *digests_b, *types_by_side[0], *types_by_side[1]}) if pair.is_compared_by_record else []
        )
        amounts_by_state = {name: (_amount_of(digests_a.get(name)), _amount_of(digests_b.get(name))) for name in names}
        differing_states = {
            name: amount_a.count + amount_b.count
            for name, (amount_a, amount_b) in amounts_by_state.items()
            if amount_a != amount_b
        }
        differences_by_state: dict[str, RecordDifferences] = {}
        if differing_states and all(pair.sides):
            differences_by_state = differing_records(
                self._first_pass.units_by_pair[pair_index], differing_states, self._files, self._tasks
            )
        for name in names:
            differences, difference_count = differences_by_state.get(name, RecordDifferences((), 0))
            type_a, type_b = types_by_side[0].get(name), types_by_side[1].get(name)
            type_difference = _type_difference(type_a, type_b)
            differences, difference_count = (*type_difference, *differences), difference_count + len(type_difference)
            kind = type_a or type_b or "unknown"
            remark = _TTL_REMARK if difference_count and "TTL<" in kind else None
            yield diffed_state(name, kind, "records", *amounts_by_state[name], differences, difference_count, remark)

    def _compare_parts(self, pair_index: int, pair: OperatorPair) -> Iterator[DiffedState]:
        """Compare the key groups, elements and copies of a pair."""
        types_by_side = [element_types(operator) for operator in pair.sides]
        for part, items in self._first_pass.items_by_part.items():
            if part.pair_index != pair_index:
                continue
            prefix = "" if part.slot in (Slot.KEYED, Slot.OPERATOR) else "raw "
            if part.mode is None:
                state, kind, counted_things = f"{prefix}keyed state", f"{prefix}key groups", "key groups"
                comparison = compare_key_groups(items, UNORDERED_ENTRIES if part.slot is Slot.KEYED else None)
            elif part.mode is DistributionMode.BROADCAST:
                state, kind, counted_things = part.state, f"{prefix}{part.mode.name}", "distinct copies"
                comparison = self._compare_copies(items, self._element_formatter(part, pair), pair)
            else:
                state, kind, counted_things = part.state, f"{prefix}{part.mode.name}", "elements"
                comparison = compare_bags(items, part.mode, self._element_formatter(part, pair).format_value)
            if part.slot is Slot.OPERATOR:
                comparison = _with_types(comparison, *(side_types.get(part.state) for side_types in types_by_side))
            yield diffed_state(state, kind, counted_things, *comparison)

    def _compare_copies(self, items: DigestedItems, formatter: ElementFormatter, pair: OperatorPair) -> ItemComparison:
        parallelism_a, parallelism_b = (operator.parallelism if operator else 0 for operator in pair.sides)
        items_by_digest = [{item.digest: (side, item) for item in items[side]} for side in Side]
        if all(items_by_digest) and items_by_digest[0].keys() != items_by_digest[1].keys():
            copy_units = [
                formatter.copy_unit(*sided_item) for sided_item in (items_by_digest[0] | items_by_digest[1]).values()
            ]
            sized_units = [(copy_unit.extent.length, copy_unit) for copy_unit in copy_units if copy_unit is not None]
            progress = Progress("compare by entry", sum(size for size, _ in sized_units), ByteAction.READ_ON_BOTH_SIDES)
            entry_digests = dict(self._tasks.run(CopyDigester(self._files), sized_units, progress))
            items = DigestedItems(
                *([item._replace(digest=entry_digests.get(item.digest, item.digest)) for item in s] for s in items)
            )
        return compare_copies(items, (parallelism_a, parallelism_b), formatter.format_value)

    def _element_formatter(self, part: StatePart, pair: OperatorPair) -> ElementFormatter:
        streams_a, streams_b = (
            operator.element_streams_in(part.slot) if operator is not None else () for operator in pair.sides
        )
        return ElementFormatter(self._files, part.state, (streams_a, streams_b))


def _type_difference(type_a: str | None, type_b: str | None) -> tuple[ListedDifference, ...]:
    """Return the difference between a state's types; none if a type is unknown (None)."""
    return (ListedDifference(OTHER_TYPE, {}, type_a, type_b),) if type_a and type_b and type_a != type_b else ()


def _with_types(comparison: ItemComparison, type_a: str | None, type_b: str | None) -> ItemComparison:
    type_difference = _type_difference(type_a, type_b)
    return comparison._replace(
        differences=(*type_difference, *comparison.differences),
        difference_count=comparison.difference_count + len(type_difference),
    )


def _amount_of(digest: StateDigest | None) -> StateAmount:
    return amount(digest.records, digest.digest) if digest is not None else amount()
