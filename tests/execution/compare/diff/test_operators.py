"""Operators that differ are named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rescale.flink.metadata.checkpoint_metadata import MasterState
from rescale.flink.metadata.handles import InlineStream
from rescale.report.differences import ListedDifference
from support.diffing import diff_against_source, only_unequal_state, unequal_states
from support.planting import Result

CANONICAL = "2-canonical-rocksdb"


def test_operator_missing_on_one_side_is_a_difference_if_it_has_state(result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    for operator in result.opened().operators:
        result.candidate.write_bytes(Path(f"{result.target}/_metadata").read_bytes())
        operator_id = operator.operator_id
        result.edit(
            lambda metadata, missing_id=operator_id: replace(
                metadata, operators=tuple(entry for entry in metadata.operators if entry.operator_id != missing_id)
            )
        )
        difference = diff_against_source(result, CANONICAL)
        assert difference.equal == (operator.bytes == 0)
        unequal_operators = [operator for operator in difference.operators if not operator.equal]
        if operator.bytes:
            (unequal_operator,) = unequal_operators
            assert unequal_operator.operator_id == operator_id
            assert [difference.found for difference in unequal_operator.differences] == ["only in A"]
            assert all(state.b.count == 0 for state in unequal_operator.states)


def test_coordinator_state_and_master_state_are_compared(result_of: Callable[[str], Result]) -> None:
    result = result_of("2-source")
    operator_index = next(i for i, operator in enumerate(result.opened().operators) if operator.entry.coordinator)
    operator_id = result.opened().operators[operator_index].operator_id
    result.edit_operator(operator_index, lambda entry: replace(entry, coordinator=InlineStream(operator_id, b"other")))
    coordinator_state = only_unequal_state(diff_against_source(result, "2-source"))
    assert (coordinator_state.state, coordinator_state.b.count, coordinator_state.differences[0].b) == (
        "coordinator",
        5,
        "5 bytes",
    )
    result.edit_operator(operator_index, lambda entry: replace(entry, coordinator=None))
    assert only_unequal_state(diff_against_source(result, "2-source")).differences[0].found == "only in A"
    result.edit(lambda metadata: replace(metadata, masters=(MasterState(1, "hook", b"x"),)))
    assert [state.state for state in unequal_states(diff_against_source(result, "2-source"))] == ["hook", "coordinator"]


def test_name_of_coordinator_handle_is_compared(result_of: Callable[[str], Result]) -> None:
    """Flink names the handle by the operator's id."""
    result = result_of("2-source")
    operator_index = next(i for i, operator in enumerate(result.opened().operators) if operator.entry.coordinator)
    coordinator = result.opened().operators[operator_index].entry.coordinator
    assert coordinator is not None
    renamed_handle = InlineStream("another", coordinator.data)
    result.edit_operator(operator_index, lambda entry: replace(entry, coordinator=renamed_handle))
    (difference,) = diff_against_source(result, "2-source").operators[operator_index].differences
    assert (difference.a, difference.b) == (coordinator.name, "another")


def test_finished_flag_of_operator_is_compared(result_of: Callable[[str], Result]) -> None:
    result = result_of("2-finished")
    operator_index = next(i for i, operator in enumerate(result.opened().operators) if operator.entry.fully_finished)
    result.edit_operator(operator_index, lambda entry: replace(entry, fully_finished=False))
    difference = diff_against_source(result, "2-finished")
    assert not difference.equal
    assert difference.operators[operator_index].differences == (
        ListedDifference("other value", {"operator": "has finished"}, "finished", "running"),
    )
