"""Keyed streams at another parallelism: on streams made up for it, and on snapshots of Flink."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.flink.key_groups import key_group_range
from rescale.flink.keyed.header import KeyedHeader, read_keyed_header
from rescale.flink.keyed.heap.heap import empty_group
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.slot import Slot
from rescale.plan.new_streams import CopiedKeyGroups, TranslatedKeyGroups
from rescale.plan.pieces import Literals, Piece, split
from rescale.planning.request.operator_shapes import Shape
from rescale.planning.streams.inline import InlineBudget
from rescale.planning.streams.key_group_streams import KeyGroupPlanner
from rescale.planning.streams.keyed_headers import HeaderPlanner
from rescale.snapshot.findings import findings
from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.model import Operator
from rescale.text.errors import SnapshotError, UnsupportedError
from support.snapshot_bytes import keyed_header, keyed_state
from support.snapshots import names, opened
from support.synthetic import GROUP_SIZE, keyed_stream, operator, own_stream, snapshot


def header(*states: str, compressed: bool = False) -> KeyedHeader:
    data = keyed_header(*map(keyed_state, states), compressed=compressed)
    return read_keyed_header(data, "header")


ONE_STATE_HEADER = header("one")


class PlannedStreams:
    """Planned keyed streams of an operator, with their literals and id tables."""

    def __init__(self, source_operator: Operator, parallelism: int) -> None:
        self.literals = Literals()
        header_planner = HeaderPlanner(source_operator.label, self.literals)
        shape = Shape(parallelism, source_operator.max_parallelism)
        self.streams = KeyGroupPlanner(source_operator, shape, header_planner, self.literals, InlineBudget()).streams()
        self.id_tables = header_planner.id_tables

    def groups(self, stream: CopiedKeyGroups | TranslatedKeyGroups) -> dict[int, tuple[Piece, ...]]:
        """Return the pieces of each key group."""
        lengths = [stream.header_size, *(max(0, length) for length in stream.key_groups)]
        _, *runs = split(stream.pieces, lengths)
        return {
            key_group: run
            for key_group, run, length in zip(
                range(stream.first_key_group, 1 << 15), runs, stream.key_groups, strict=False
            )
            if length >= 0
        }

    def literal_bytes(self, piece: Piece) -> bytes:
        assert piece.file is None
        return self.literals.bytes()[piece.start : piece.start + piece.length]


def source_pieces(source_operator: Operator) -> dict[int, Piece]:
    """Return the piece of the source that holds each key group."""
    return {
        key_group: Piece(*extent)
        for stream in source_operator.keyed
        for key_group, extent in enumerate(stream.groups, stream.first_key_group)
        if extent is not None
    }


def operator_of_framing(framing: Framing, parallelism: int, max_parallelism: int) -> Operator:
    streams = tuple(own_stream(i, parallelism, max_parallelism, framing, ONE_STATE_HEADER) for i in range(parallelism))
    return operator("counts", parallelism, max_parallelism, keyed=streams)


@pytest.mark.parametrize("framing", [Framing.CANONICAL, Framing.HEAP])
@given(st.integers(1, 40), st.integers(1, 40))
def test_every_key_group_goes_to_the_subtask_that_owns_it(
    framing: Framing, old_parallelism: int, new_parallelism: int
) -> None:
    source_operator = operator_of_framing(framing, old_parallelism, 40)
    planned, expected = PlannedStreams(source_operator, new_parallelism), source_pieces(source_operator)
    planned_groups: dict[int, tuple[Piece, ...]] = {}
    for stream in planned.streams:
        own_groups = key_group_range(40, new_parallelism, stream.subtask)
        assert (stream.first_key_group, len(stream.key_groups)) == (own_groups.first, len(own_groups))
        assert stream.handle_tag == source_operator.keyed[0].handle_tag
        assert all(length == GROUP_SIZE for length in stream.key_groups)
        planned_groups |= planned.groups(stream)
    assert [stream.subtask for stream in planned.streams] == list(range(new_parallelism))
    assert planned_groups == {key_group: (piece,) for key_group, piece in expected.items()}
    assert planned.id_tables == []


def test_at_the_same_parallelism_a_stream_is_copied_in_one_piece() -> None:
    source_operator = operator_of_framing(Framing.CANONICAL, 2, 128)
    assert [stream.pieces for stream in PlannedStreams(source_operator, 2).streams] == [
        (Piece(*stream.extent),) for stream in source_operator.keyed
    ]


def test_key_groups_in_the_wrong_subtask_are_moved_with_a_warning() -> None:
    """The operator has parallelism 4, but its streams are those of 2 subtasks.

    Flink would drop half of the key groups unnoticed.
    """
    streams = tuple(own_stream(i, 2, 128, Framing.HEAP, ONE_STATE_HEADER) for i in range(2))
    source_operator = operator("counts", 4, keyed=streams)
    sentences = findings(snapshot(source_operator))
    assert any(
        "subtask 0 of 4 owns key groups 0-31 but its keyed state holds 0-63" in sentence for sentence in sentences
    )
    planned = PlannedStreams(source_operator, 4)
    assert [stream.subtask for stream in planned.streams] == [0, 1, 2, 3]
    planned_groups = {key_group: run for stream in planned.streams for key_group, run in planned.groups(stream).items()}
    assert planned_groups == {key_group: (piece,) for key_group, piece in source_pieces(source_operator).items()}


def test_layout_of_flink_gives_no_warning() -> None:
    assert findings(snapshot(operator_of_framing(Framing.HEAP, 3, 128))) == []


def stream_of(subtask: int, first: int, last: int, framing: Framing = Framing.CANONICAL) -> KeyedStream:
    groups = dict.fromkeys(range(first, last + 1), GROUP_SIZE)
    return keyed_stream(subtask, groups, framing, ONE_STATE_HEADER, first=first, last=last)


def test_key_group_in_two_streams_is_refused() -> None:
    source_operator = operator("counts", keyed=(stream_of(0, 0, 64), stream_of(1, 64, 127)))
    with pytest.raises(SnapshotError, match="key group 64 lies in two keyed streams") as caught:
        PlannedStreams(source_operator, 3)
    assert (caught.value.operator, caught.value.found) == ("counts", "subtasks 0 and 1")
    assert any(
        "key group 64 lies in the keyed state of subtasks 0 and 1" in finding
        for finding in findings(snapshot(source_operator))
    )


@pytest.mark.parametrize(("first", "last"), [(64, 128), (-1, 3)])
def test_key_groups_beyond_the_max_parallelism_are_refused(first: int, last: int) -> None:
    with pytest.raises(SnapshotError, match="declares key groups outside"):
        PlannedStreams(operator("counts", keyed=(stream_of(1, first, last),)), 3)


@pytest.mark.parametrize("framing", [Framing.CANONICAL, Framing.HEAP])
def test_subtask_without_any_stored_key_group_gets_no_stream(framing: Framing) -> None:
    source_operator = operator("counts", 4, keyed=(stream_of(0, 0, 31, framing),))
    assert [stream.subtask for stream in PlannedStreams(source_operator, 8).streams] == [0, 1]
    assert PlannedStreams(operator("counts"), 3).streams == []


def test_key_group_without_canonical_state_stays_without() -> None:
    groups = {3: 10, 60: 20}
    source_operator = operator(
        "counts", 1, 64, keyed=(keyed_stream(0, groups, Framing.CANONICAL, ONE_STATE_HEADER, first=0, last=63),)
    )
    (first, second) = PlannedStreams(source_operator, 2).streams
    assert first.key_groups == (-1, -1, -1, 10, *[-1] * 28)
    assert second.key_groups == (*[-1] * 28, 20, -1, -1, -1)


def test_missing_key_groups_of_a_heap_stream_become_empty_ones() -> None:
    """Flink reads a block for every key group of a heap stream; those that are not stored get an empty block."""
    source_operator = operator("counts", 4, keyed=(stream_of(0, 0, 31, Framing.HEAP),))
    planned = PlannedStreams(source_operator, 3)
    (stream,) = planned.streams
    assert (stream.first_key_group, len(stream.key_groups)) == (0, 43)
    groups = planned.groups(stream)
    assert {key_group: groups[key_group] for key_group in range(32)} == {
        key_group: (piece,) for key_group, piece in source_pieces(source_operator).items()
    }
    for key_group in range(32, 43):
        assert b"".join(map(planned.literal_bytes, groups[key_group])) == empty_group(key_group, ONE_STATE_HEADER)


def test_missing_heap_key_groups_with_an_unknown_serializer_are_refused() -> None:
    groups = dict.fromkeys(range(32), GROUP_SIZE)
    source_operator = operator(
        "counts", 4, keyed=(keyed_stream(0, groups, Framing.HEAP, b"unknown", first=0, last=31),)
    )
    with pytest.raises(UnsupportedError, match="hides the number of states"):
        PlannedStreams(source_operator, 3)
    assert len(PlannedStreams(source_operator, 4).streams) == 1


def operator_with_headers(framing: Framing, *headers: KeyedHeader | bytes) -> Operator:
    streams = tuple(own_stream(i, len(headers), 128, framing, header) for i, header in enumerate(headers))
    return operator("counts", len(headers), keyed=streams)


def test_canonical_streams_with_different_states_get_merged_header_and_new_ids() -> None:
    source_operator = operator_with_headers(Framing.CANONICAL, header("one", "two"), header("two", "one", "three"))
    planned = PlannedStreams(source_operator, 1)
    (stream,) = planned.streams
    merged_header = planned.literal_bytes(stream.pieces[0])[: stream.header_size]
    assert [state.name for state in read_keyed_header(merged_header, "").states] == ["one", "two", "three"]
    assert planned.id_tables == [(1, 0, 2)]
    assert {piece.ids for piece in stream.pieces if piece.file == 1} == {None}
    assert {piece.ids for piece in stream.pieces if piece.file == 2} == {0}
    assert isinstance(stream, TranslatedKeyGroups)


def test_state_ids_are_translated_only_if_streams_are_merged() -> None:
    source_operator = operator_with_headers(Framing.CANONICAL, header("one", "two"), header("two", "one"))
    planned = PlannedStreams(source_operator, 2)
    assert all(isinstance(stream, CopiedKeyGroups) for stream in planned.streams)
    assert planned.id_tables == []


def test_unknown_serializers_move_as_long_as_the_headers_are_equal() -> None:
    assert len(PlannedStreams(operator_with_headers(Framing.CANONICAL, b"same", b"same"), 3).streams) == 3
    with pytest.raises(UnsupportedError, match="unknown serializer hides the state names") as caught:
        PlannedStreams(operator_with_headers(Framing.CANONICAL, b"one", b"another"), 3)
    assert caught.value.operator == "counts"


def test_heap_streams_with_different_states_are_refused_with_advice() -> None:
    source_operator = operator_with_headers(Framing.HEAP, header("one", "two"), header("two", "one"))
    with pytest.raises(UnsupportedError, match="does not mark where a state begins") as caught:
        PlannedStreams(source_operator, 3)
    assert "canonical savepoint" in str(caught.value.advice)
    assert "subtask 1" in str(caught.value.found)
    assert len(PlannedStreams(source_operator, 2).streams) == 2


def test_heap_stream_without_entries_takes_the_states_of_the_others() -> None:
    full_header, bare_header = header("one", "two"), header("one")
    own_groups = key_group_range(128, 2, 1)
    size_by_key_group = {
        key_group: len(empty_group(key_group, bare_header))
        for key_group in range(own_groups.first, own_groups.last + 1)
    }
    empty_stream = keyed_stream(
        1, size_by_key_group, Framing.HEAP, bare_header, first=own_groups.first, last=own_groups.last
    )
    source_operator = operator("counts", keyed=(own_stream(0, 2, 128, Framing.HEAP, full_header), empty_stream))
    planned = PlannedStreams(source_operator, 1)
    groups = planned.groups(planned.streams[0])
    assert all(piece.file == 1 for key_group in range(64) for piece in groups[key_group])
    for key_group in range(64, 128):
        assert b"".join(map(planned.literal_bytes, groups[key_group])) == empty_group(key_group, full_header)


def test_raw_key_groups_move_without_header_to_subtasks_that_have_some() -> None:
    raw_stream = keyed_stream(0, {5: 10, 6: 0, 100: 7}, Framing.RAW, first=0, last=127)
    planned = PlannedStreams(operator("timers", 1, raw_keyed=(raw_stream,)), 4)
    assert [(stream.slot, stream.subtask, stream.header_size) for stream in planned.streams] == [
        (Slot.RAW_KEYED, 0, 0),
        (Slot.RAW_KEYED, 3, 0),
    ]
    assert planned.streams[0].key_groups == (*[-1] * 5, 10, 0, *[-1] * 25)
    assert planned.groups(planned.streams[1]) == {100: (Piece(1, 10, 7),)}


@pytest.mark.parametrize("name", [name for name in names() if not name.endswith(("rocksdb-checkpoint",))])
@pytest.mark.parametrize("parallelism", [1, 5])
def test_every_key_group_of_a_snapshot_of_flink_is_planned(name: str, parallelism: int) -> None:
    for source_operator in opened(name).operators:
        if not source_operator.keyed or source_operator.max_parallelism < parallelism or is_mixed_heap(source_operator):
            continue
        planned, expected = PlannedStreams(source_operator, parallelism), source_pieces(source_operator)
        keyed_streams = [stream for stream in planned.streams if stream.slot is Slot.KEYED]
        planned_groups = {
            key_group: run for stream in keyed_streams for key_group, run in planned.groups(stream).items()
        }
        assert set(expected) <= set(planned_groups)
        for key_group, run in planned_groups.items():
            (piece,) = run
            if piece.file is not None:
                assert piece._replace(ids=None) == expected[key_group]
        for stream in keyed_streams:
            data = b"".join(bytes_of(name, planned, piece) for piece in stream.pieces)
            assert len(data) == stream.size
            if isinstance(stream, TranslatedKeyGroups):
                assert read_keyed_header(data[: stream.header_size], name).compressed == stream.compressed


def is_mixed_heap(source_operator: Operator) -> bool:
    """Return whether the operator has heap streams with different headers, which a run rewrites (not checked here)."""
    return (
        source_operator.keyed[0].framing is Framing.HEAP
        and len({stream.header for stream in source_operator.keyed}) > 1
    )


def bytes_of(name: str, planned: PlannedStreams, piece: Piece) -> bytes:
    if piece.file is None:
        return planned.literal_bytes(piece)
    file, start, length, _ = piece
    return Path(opened(name).files[file][0]).read_bytes()[start : start + length]


@pytest.mark.parametrize("name", ["1.20-lazy", "2-lazy", "1.20-lazy-compressed", "2-lazy-compressed"])
def test_states_that_flink_registered_late_need_new_ids(name: str) -> None:
    source_operator = next(operator for operator in opened(name).operators if operator.label == "states")
    planned = PlannedStreams(source_operator, 1)
    assert planned.id_tables
    (stream,) = planned.streams
    merged_header = read_keyed_header(planned.literal_bytes(stream.pieces[0])[: stream.header_size], name)
    raw_by_name = {
        state.name: state.raw for stream in source_operator.keyed if stream.parsed for state in stream.parsed.states
    }
    assert {state.name: state.raw for state in merged_header.states} == raw_by_name
