"""The first pass digests every record, element, copy and key group of both sides, by operator and state or slot."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from unittest.mock import patch

import pytest

from rescale.execution.compare.diff.differences import Side
from rescale.execution.compare.diff.first_pass import FirstPass, StatePart, digest_all
from rescale.execution.compare.diff.pairs import OperatorPair, pair_operators
from rescale.execution.sources.byte_digests import digest
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.encoding.snappy import decompressed
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.operator_state import has_compressed_elements
from rescale.flink.slot import OPERATOR_SLOTS, Slot
from rescale.snapshot.model import Snapshot
from support.canonical import read_group
from support.snapshots import content, keyed_streams, opened


def first_pass(a: Snapshot, b: Snapshot) -> tuple[list[OperatorPair], FirstPass]:
    """Run the first pass with tasks that end in any order."""
    pairs = pair_operators(a, b)
    return pairs, digest_all(pairs, (a.contents, b.contents), InProcessTasks(random=Random(1)))


def labels(pairs: list[OperatorPair]) -> dict[int, str]:
    return {number: pair.label for number, pair in enumerate(pairs)}


def test_records_of_all_subtasks_are_counted_by_state() -> None:
    name = "2-canonical-rocksdb"
    snapshot = opened(name)
    expected: Counter[tuple[str, str]] = Counter()
    for keyed in keyed_streams():
        if keyed.snapshot is snapshot and keyed.stream.parsed is not None:
            operator = next(operator for operator in snapshot.operators if keyed.stream in operator.keyed)
            for _, group in keyed.groups():
                for _, record in read_group(group, operator.max_parallelism):
                    expected[operator.label, keyed.stream.parsed.states[record.state].name] += 1
    pairs, first = first_pass(snapshot, snapshot)
    for side in Side:
        assert expected == {
            (pairs[number].label, state): digests.records
            for number, by_side in first.digests_by_pair.items()
            for state, digests in by_side[side].items()
            if digests.records
        }


@pytest.mark.parametrize("name", ["2-canonical-rocksdb", "2-canonical-compressed", "2-source", "2-raw"])
def test_every_element_is_digested_in_order_of_subtasks(name: str) -> None:
    snapshot = opened(name)
    with patch("rescale.execution.sources.spans._MOST_RUN_ITEMS", 2):
        pairs, first = first_pass(snapshot, snapshot)
    expected: dict[tuple[str, Slot, str], list[tuple[int, int, int]]] = {}
    for operator in snapshot.operators:
        for slot in OPERATOR_SLOTS:
            for stream in operator.element_streams_in(slot):
                is_compressed = bool(stream.header) and has_compressed_elements(stream.header)
                for state in stream.states:
                    items = expected.setdefault((operator.label, slot, state.name), [])
                    for number, extent in enumerate(state.elements):
                        stored = [content(snapshot, extent)]
                        plain = decompressed(stored, has_identifier=False) if is_compressed else stored
                        items.append((digest(plain), stream.subtask, number))
    assert any(expected.values())
    for side in Side:
        digested = {
            (labels(pairs)[part.pair_index], part.slot, part.state): [item[:3] for item in items[side]]
            for part, items in first.items_by_part.items()
            if part.mode is not None
        }
        assert digested == expected


def test_state_without_elements_has_a_part() -> None:
    snapshot = opened("2-canonical-rocksdb")
    pairs, first = first_pass(snapshot, snapshot)
    lists = next(number for number, label in labels(pairs).items() if label == "lists")
    assert first.items_by_part[StatePart(lists, Slot.OPERATOR, "no-offsets", DistributionMode.UNION)] == ([], [])


def test_raw_key_groups_are_digested_whole() -> None:
    snapshot = opened("2-raw")
    pairs, first = first_pass(snapshot, snapshot)
    raw = next(operator for operator in snapshot.operators if operator.label == "raw")
    (part,) = (part for part in first.items_by_part if part.slot is Slot.RAW_KEYED)
    assert (labels(pairs)[part.pair_index], part.state, part.mode) == ("raw", "", None)
    expected = [
        (digest([content(snapshot, extent)]), stream.subtask, key_group, extent)
        for stream in raw.raw_keyed
        for key_group, extent in stream.filled_groups
    ]
    assert first.items_by_part[part].b == expected
    assert len(expected) > 1


def test_heap_key_groups_are_digested_whole_where_records_have_unknown_ends() -> None:
    snapshot = opened("2-heap-native")
    with patch("rescale.execution.compare.diff.pairs.can_delimit_entries", return_value=False):
        pairs, first = first_pass(snapshot, snapshot)
    assert not first.digests_by_pair
    states = next(number for number, label in labels(pairs).items() if label == "states")
    items = first.items_by_part[StatePart(states, Slot.KEYED, "", None)]
    operator = next(operator for operator in snapshot.operators if operator.label == "states")
    filled = [group for stream in operator.keyed for group, _ in stream.filled_groups]
    assert [item.number for item in items.a] == filled


def test_operator_that_one_snapshot_lacks_is_digested_on_the_other_side() -> None:
    snapshot = opened("2-canonical-rocksdb")
    missing_operator = next(operator for operator in snapshot.operators if operator.label == "states")
    pairs, first = first_pass(
        replace(
            snapshot, operators=tuple(operator for operator in snapshot.operators if operator is not missing_operator)
        ),
        snapshot,
    )
    number = next(number for number, label in labels(pairs).items() if label == "states")
    a, b = first.digests_by_pair[number]
    assert a == {}
    assert sum(digests.records for digests in b.values()) > 0
    assert {unit.side for unit in first.units_by_pair[number]} == {Side.B}
