"""The first pass over two snapshots: reads all state once and digests it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rescale.execution.compare.diff.differences import BothFiles, Side
from rescale.execution.compare.diff.items import DigestedItem, DigestedItems
from rescale.execution.compare.diff.pairs import OperatorPair
from rescale.execution.compare.diff.state_digests import Digester, ExtentDigests, ExtentUnit, RecordUnit
from rescale.execution.compare.source_digests import add_digests
from rescale.execution.progress import ByteAction, Progress
from rescale.execution.sources.record_sources import sources_of
from rescale.execution.sources.spans import extent_runs, group_runs
from rescale.execution.tasks.protocol import Tasks
from rescale.flink.keyed.blocks.record_digest import StateDigest
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.slot import OPERATOR_SLOTS, Slot
from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.model import ElementStream, Operator

StateDigests = dict[str, StateDigest]


class StatePart(NamedTuple):
    """State of one operator that is compared on its own: a named operator state, or all key groups of a slot.

    If the part has key groups, `state` is empty and `mode` is None. `pair_index` is the index of the `OperatorPair`.
    """

    pair_index: int
    slot: Slot
    state: str
    mode: DistributionMode | None


class _UnitOrigin(NamedTuple):
    """Part and subtask to which a unit's extents belong, and the `DigestedItem.number` of each extent."""

    part: StatePart
    subtask: int
    item_numbers: tuple[int, ...]


@dataclass
class FirstPass:
    """Result of the first pass.

    `digests_by_pair` has the digests of keyed records by side, and `units_by_pair` the units from which these records
    were read. Both are by index of the operator pair. `items_by_part` has the digested items of all other state.
    """

    digests_by_pair: dict[int, tuple[StateDigests, StateDigests]] = field(
        default_factory=lambda: defaultdict(lambda: ({}, {}))
    )
    units_by_pair: dict[int, list[RecordUnit]] = field(default_factory=lambda: defaultdict(list))
    items_by_part: dict[StatePart, DigestedItems] = field(default_factory=dict)


def digest_all(pairs: Sequence[OperatorPair], files: BothFiles, tasks: Tasks) -> FirstPass:
    """Read all state of the paired operators on both sides and digest it."""
    first_pass = FirstPass()
    origins: list[_UnitOrigin] = []
    record_units: list[tuple[int, RecordUnit]] = []
    extent_units: list[ExtentUnit] = []
    for pair_index, pair in enumerate(pairs):
        compares_records = pair.is_compared_by_record
        for side, operator in zip(Side, pair.sides, strict=True):
            if operator is None:
                continue
            if compares_records:
                first_pass.units_by_pair[pair_index] += _record_units(pair, side, operator)
            for part in _element_parts(pair_index, operator):
                first_pass.items_by_part.setdefault(part, DigestedItems([], []))
            for origin, unit in _extent_units(pair_index, pair, side, operator, has_heap_state=not compares_records):
                origins.append(origin)
                extent_units.append(unit._replace(unit_index=len(extent_units)))
        record_units += ((pair_index, unit) for unit in first_pass.units_by_pair[pair_index])
    units: list[ExtentUnit | RecordUnit] = [*extent_units]
    units += (unit._replace(unit_index=unit_index) for unit_index, (_, unit) in enumerate(record_units))
    progress = Progress("compare", sum(unit.size for unit in units), ByteAction.READ_ON_BOTH_SIDES)
    for unit_digests in tasks.run(Digester(files), [(unit.size, unit) for unit in units], progress):
        if isinstance(unit_digests, ExtentDigests):
            origin, extent_unit = origins[unit_digests.unit_index], extent_units[unit_digests.unit_index]
            items = zip(unit_digests.digests, origin.item_numbers, extent_unit.extents, strict=True)
            side_items = first_pass.items_by_part.setdefault(origin.part, DigestedItems([], []))[extent_unit.side]
            side_items += (DigestedItem(digest, origin.subtask, number, extent) for digest, number, extent in items)
        else:
            pair_index, record_unit = record_units[unit_digests.unit_index]
            add_digests(first_pass.digests_by_pair[pair_index][record_unit.side], unit_digests.digests_by_state)
    for part_items in first_pass.items_by_part.values():
        for items_of_side in part_items:
            items_of_side.sort(key=lambda item: (item.subtask, item.number))
    return first_pass


def _element_parts(pair_index: int, operator: Operator) -> Iterator[StatePart]:
    """Yield a part for each list, union and broadcast state of an operator, even if the state is empty."""
    for slot in OPERATOR_SLOTS:
        for stream in operator.element_streams_in(slot):
            for state in stream.states:
                yield StatePart(pair_index, slot, state.name, state.mode)


def _extent_units(
    pair_index: int, pair: OperatorPair, side: Side, operator: Operator, *, has_heap_state: bool
) -> Iterator[tuple[_UnitOrigin, ExtentUnit]]:
    if has_heap_state:
        for stream in pair.keyed_streams(operator):
            yield from _group_units(StatePart(pair_index, Slot.KEYED, "", None), pair.label, side, stream)
    for stream in pair.raw_keyed_streams(operator):
        yield from _group_units(StatePart(pair_index, Slot.RAW_KEYED, "", None), pair.label, side, stream)
    for slot in OPERATOR_SLOTS:
        for element_stream in operator.element_streams_in(slot):
            yield from _element_units(pair_index, pair.label, side, slot, element_stream)


def _record_units(pair: OperatorPair, side: Side, operator: Operator) -> Iterator[RecordUnit]:
    for holder in pair.record_holders(operator):
        for source in sources_of(holder, operator.max_parallelism, operator.cutoffs):
            yield RecordUnit(0, side, pair.label, source)


def _group_units(
    part: StatePart, label: str, side: Side, stream: KeyedStream
) -> Iterator[tuple[_UnitOrigin, ExtentUnit]]:
    """Yield units of whole key groups; a heap stream's key groups without entries are skipped."""
    for run in group_runs(stream.filled_groups):
        key_groups, extents = zip(*run, strict=True)
        yield _UnitOrigin(part, stream.subtask, key_groups), ExtentUnit(0, side, label, None, extents, compressed=False)


def _element_units(
    pair_index: int, label: str, side: Side, slot: Slot, stream: ElementStream
) -> Iterator[tuple[_UnitOrigin, ExtentUnit]]:
    for state in stream.states:
        part, begin = StatePart(pair_index, slot, state.name, state.mode), 0
        for run in extent_runs(state.elements):
            element_numbers = tuple(range(begin, begin + len(run)))
            begin += len(run)
            unit = ExtentUnit(0, side, label, state.name, tuple(run), stream.compressed)
            yield _UnitOrigin(part, stream.subtask, element_numbers), unit
