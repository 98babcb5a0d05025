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


def run_first_pass(a: Snapshot, b: Snapshot) -> tuple[list[OperatorPair], FirstPass]:
    """Run the first pass with tasks that end in any order."""
    pairs = pair_operators(a, b)
    return pairs, digest_all(pairs, (a.contents, b.contents), InProcessTasks(random=Random(1)))


def label_by_pair_index(pairs: list[OperatorPair]) -> dict[int, str]:
    return {pair_index: pair.label for pair_index, pair in enumerate(pairs)}


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
    pairs, first_pass = run_first_pass(snapshot, snapshot)
    for side in Side:
        assert expected == {
            (pairs[pair_index].label, state): digests.records
            for pair_index, by_side in first_pass.digests_by_pair.items()
            for state, digests in by_side[side].items()
            if digests.records
        }


@pytest.mark.parametrize("name", ["2-canonical-rocksdb", "2-canonical-compressed", "2-source", "2-raw"])
def test_every_element_is_digested_in_order_of_subtasks(name: str) -> None:
    snapshot = opened(name)
    with patch("rescale.execution.sources.spans._MOST_RUN_ITEMS", 2):
        pairs, first_pass = run_first_pass(snapshot, snapshot)
    expected: dict[tuple[str, Slot, str], list[tuple[int, int, int]]] = {}
    for operator in snapshot.operators:
        for slot in OPERATOR_SLOTS:
            for stream in operator.element_streams_in(slot):
                is_compressed = bool(stream.header) and has_compressed_elements(stream.header)
                for state in stream.states:
                    items = expected.setdefault((operator.label, slot, state.name), [])
                    for element_index, extent in enumerate(state.elements):
                        stored = [content(snapshot, extent)]
                        plain = decompressed(stored, has_identifier=False) if is_compressed else stored
                        items.append((digest(plain), stream.subtask, element_index))
    assert any(expected.values())
    for side in Side:
        digested_items = {
            (label_by_pair_index(pairs)[part.pair_index], part.slot, part.state): [item[:3] for item in items[side]]
            for part, items in first_pass.items_by_part.items()
            if part.mode is not None
        }
        assert digested_items == expected


def test_state_without_elements_has_a_part() -> None:
    snapshot = opened("2-canonical-rocksdb")
    pairs, first_pass = run_first_pass(snapshot, snapshot)
    lists_index = next(pair_index for pair_index, label in label_by_pair_index(pairs).items() if label == "lists")
    assert first_pass.items_by_part[StatePart(lists_index, Slot.OPERATOR, "no-offsets", DistributionMode.UNION)] == (
        [],
        [],
    )


def test_raw_key_groups_are_digested_whole() -> None:
    snapshot = opened("2-raw")
    pairs, first_pass = run_first_pass(snapshot, snapshot)
    raw = next(operator for operator in snapshot.operators if operator.label == "raw")
    (part,) = (part for part in first_pass.items_by_part if part.slot is Slot.RAW_KEYED)
    assert (label_by_pair_index(pairs)[part.pair_index], part.state, part.mode) == ("raw", "", None)
    expected = [
        (digest([content(snapshot, extent)]), stream.subtask, key_group, extent)
        for stream in raw.raw_keyed
        for key_group, extent in stream.filled_groups
    ]
    assert first_pass.items_by_part[part].b == expected
    assert len(expected) > 1


def test_heap_key_groups_are_digested_whole_where_records_have_unknown_ends() -> None:
    snapshot = opened("2-heap-native")
    with patch("rescale.execution.compare.diff.pairs.can_delimit_entries", return_value=False):
        pairs, first_pass = run_first_pass(snapshot, snapshot)
    assert not first_pass.digests_by_pair
    states_index = next(pair_index for pair_index, label in label_by_pair_index(pairs).items() if label == "states")
    items = first_pass.items_by_part[StatePart(states_index, Slot.KEYED, "", None)]
    operator = next(operator for operator in snapshot.operators if operator.label == "states")
    filled_groups = [group for stream in operator.keyed for group, _ in stream.filled_groups]
    assert [item.number for item in items.a] == filled_groups


def test_operator_that_one_snapshot_lacks_is_digested_on_the_other_side() -> None:
    snapshot = opened("2-canonical-rocksdb")
    missing_operator = next(operator for operator in snapshot.operators if operator.label == "states")
    pairs, first_pass = run_first_pass(
        replace(
            snapshot, operators=tuple(operator for operator in snapshot.operators if operator is not missing_operator)
        ),
        snapshot,
    )
    pair_index = next(pair_index for pair_index, label in label_by_pair_index(pairs).items() if label == "states")
    a, b = first_pass.digests_by_pair[pair_index]
    assert a == {}
    assert sum(digests.records for digests in b.values()) > 0
    assert {unit.side for unit in first_pass.units_by_pair[pair_index]} == {Side.B}
