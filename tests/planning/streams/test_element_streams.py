"""Operator state at another parallelism, element by element."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.operator_state import OperatorStateHeader, read_operator_state_header, write_operator_state_header
from rescale.flink.slot import Slot
from rescale.plan.new_streams import CheckedElements, CopiedElements
from rescale.plan.pieces import Literals, Piece, split
from rescale.planning.streams.element_streams import plan_elements
from rescale.planning.streams.inline import InlineBudget
from rescale.snapshot.model import ElementStream, Operator
from rescale.text.errors import SnapshotError, UnsupportedError
from support.snapshot_bytes import broadcast_state, operator_header, operator_list
from support.snapshots import names, opened
from support.synthetic import GROUP_SIZE, element_stream, operator

SPLIT, UNION, BROADCAST = DistributionMode.SPLIT_DISTRIBUTE, DistributionMode.UNION, DistributionMode.BROADCAST


def header(*lists: str, broadcast: Sequence[str] = (), compressed: bool = False) -> OperatorStateHeader:
    states = tuple(map(operator_list, lists)), tuple(map(broadcast_state, broadcast))
    return read_operator_state_header(operator_header(*states, compressed=compressed), "header")


def unread_header(state: str, *, compressed: bool = False) -> bytes:
    """Return a header that is not parsed, as if it had an unknown serializer."""
    return write_operator_state_header(header(state, compressed=compressed))


HEADER = header("list", "union", broadcast=["rules"])


ElementsStream = CopiedElements | CheckedElements


def planned_streams(
    source_operator: Operator, parallelism: int, literals: Literals | None = None
) -> list[ElementsStream]:
    return plan_elements(source_operator, parallelism, literals or Literals(), InlineBudget())


def elements_by_state(stream: ElementsStream) -> dict[str, list[tuple[Piece, ...]]]:
    """Return the pieces of each element, by state."""
    lengths = [stream.header_size, *(length for state in stream.states for length in state.lengths)]
    _, *runs = split(stream.pieces, lengths)
    by_state, rest = {}, iter(runs)
    for state in stream.states:
        by_state[state.name] = [next(rest) for _ in state.lengths]
    return by_state


def all_elements(streams: Sequence[ElementsStream], state: str) -> list[tuple[Piece, ...]]:
    return [element for stream in streams for element in elements_by_state(stream)[state]]


def subtask_stream(i: int, list_count: int, union_count: int = 0, broadcast_count: int = 1) -> ElementStream:
    return element_stream(
        i, {"list": (SPLIT, list_count), "union": (UNION, union_count), "rules": (BROADCAST, broadcast_count)}, HEADER
    )


def stored_elements(sources: Sequence[ElementStream], name: str) -> list[tuple[Piece, ...]]:
    return [
        (Piece(*extent),)
        for source in sources
        for state in source.states
        if state.name == name
        for extent in state.elements
    ]


element_counts = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=6)


@given(element_counts, st.integers(1, 9))
def test_every_element_goes_to_exactly_one_subtask(element_counts: list[tuple[int, int]], parallelism: int) -> None:
    sources = tuple(
        subtask_stream(i, list_count, union_count) for i, (list_count, union_count) in enumerate(element_counts)
    )
    streams = planned_streams(operator("lists", len(sources), elements=sources), parallelism)
    assert [stream.subtask for stream in streams] == list(range(parallelism))
    for name in ("list", "union"):
        assert Counter(all_elements(streams, name)) == Counter(stored_elements(sources, name))
    for stream in streams:
        (copy,) = elements_by_state(stream)["rules"]
        assert copy == stored_elements([sources[stream.subtask % len(sources)]], "rules")[0]
        assert stream.header_size == len(sources[0].header)


def test_at_the_same_parallelism_elements_stay_in_their_subtask() -> None:
    sources = (subtask_stream(0, 3), subtask_stream(2, 1, union_count=2))
    streams = planned_streams(operator("lists", 3, elements=sources), 3)
    assert [(stream.subtask, stream.pieces) for stream in streams] == [
        (source.subtask, (Piece(*source.extent),)) for source in sources
    ]


def test_subtasks_without_a_handle_get_one_at_another_parallelism() -> None:
    streams = planned_streams(operator("lists", 3, elements=(subtask_stream(1, 2),)), 4)
    assert [len(elements_by_state(stream)["list"]) for stream in streams] == [1, 1, 0, 0]
    assert [len(elements_by_state(stream)["rules"]) for stream in streams] == [1, 1, 1, 1]


def test_element_streams_with_different_states_get_a_merged_header() -> None:
    sources = (
        element_stream(0, {"early": (SPLIT, 1)}, header("early")),
        element_stream(1, {"late": (SPLIT, 2), "early": (SPLIT, 1)}, header("late", "early", broadcast=["rules"])),
    )
    literals = Literals()
    streams = planned_streams(operator("lists", elements=sources), 3, literals)
    for stream in streams:
        start = stream.pieces[0].start
        merged = read_operator_state_header(literals.bytes()[start : start + stream.header_size], "merged")
        assert [state.name for state in merged.list_states] == ["early", "late"]
        assert [state.name for state in merged.broadcast_states] == ["rules"]
        assert [state.name for state in stream.states] == ["early", "late"]
    assert sum(len(elements_by_state(stream)["late"]) for stream in streams) == 2


def test_at_the_same_parallelism_streams_may_have_different_states() -> None:
    sources = tuple(element_stream(i, {name: (SPLIT, 1)}, unread_header(name)) for i, name in enumerate(("one", "two")))
    streams = planned_streams(operator("lists", elements=sources), 2)
    assert [stream.pieces for stream in streams] == [(Piece(*source.extent),) for source in sources]


def test_unknown_serializers_hide_which_states_differ() -> None:
    sources = tuple(element_stream(i, {name: (SPLIT, 1)}, unread_header(name)) for i, name in enumerate(("one", "two")))
    with pytest.raises(UnsupportedError, match="unknown serializer hides the state names") as caught:
        planned_streams(operator("lists", elements=sources), 3)
    assert caught.value.operator == "lists"
    same_sources = tuple(element_stream(i, {"one": (SPLIT, 1)}, unread_header("one")) for i in range(2))
    assert len(planned_streams(operator("lists", elements=same_sources), 3)) == 3


def test_compressed_and_plain_element_streams_together_are_refused() -> None:
    sources = tuple(
        element_stream(i, {"list": (SPLIT, 1)}, header("list", compressed=compressed))
        for i, compressed in enumerate((False, True))
    )
    with pytest.raises(SnapshotError, match="files of operator state"):
        planned_streams(operator("lists", elements=sources), 3)


@pytest.mark.parametrize("source_header", [header("list", compressed=True), unread_header("list", compressed=True)])
def test_compressed_elements_are_checked_while_they_are_copied(source_header: OperatorStateHeader | bytes) -> None:
    sources = (element_stream(0, {"list": (SPLIT, 3)}, source_header),)
    assert all(
        isinstance(stream, CheckedElements) for stream in planned_streams(operator("lists", 1, elements=sources), 2)
    )


def test_raw_elements_have_no_header() -> None:
    sources = tuple(element_stream(i, {"_default_": (SPLIT, 2)}) for i in range(2))
    streams = planned_streams(operator("raw", raw_elements=sources), 4)
    assert {(stream.slot, stream.header_size, stream.size) for stream in streams} == {
        (Slot.RAW_OPERATOR, 0, GROUP_SIZE)
    }
    assert all_elements(streams, "_default_") == stored_elements(sources, "_default_")


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("parallelism", [1, 4])
def test_every_element_of_a_snapshot_of_flink_is_planned(name: str, parallelism: int) -> None:
    for source_operator in opened(name).operators:
        sources = source_operator.element_streams
        streams = [stream for stream in planned_streams(source_operator, parallelism) if stream.slot is Slot.OPERATOR]
        modes = {state.name: state.mode for source in sources for state in source.states}
        assert len(streams) == (parallelism if sources else 0)
        for state, mode in modes.items():
            planned_elements = all_elements(streams, state)
            if mode is BROADCAST:
                copies = stored_elements(sources, state)
                assert planned_elements == [copies[i % len(copies)] for i in range(parallelism)]
            else:
                assert Counter(planned_elements) == Counter(stored_elements(sources, state))
