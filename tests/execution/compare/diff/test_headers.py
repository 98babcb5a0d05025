"""States whose headers differ, or hold an unknown serializer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rescale.report.differences import ListedDifference
from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import UnsupportedError
from support import edited, snapshots
from support.diffing import diff, edit_records, first, only_unequal_state, with_other_value
from support.planting import Result

CANONICAL = "2-canonical-rocksdb"
HEAP = "2-heap-native"


def with_changed_operators(snapshot: Snapshot, change: Callable[[Operator], Operator]) -> Snapshot:
    return replace(snapshot, operators=tuple(map(change, snapshot.operators)))


def test_other_state_type_is_a_difference() -> None:
    a = snapshots.opened(CANONICAL)

    def as_reducing(stream: KeyedStream) -> KeyedStream:
        assert stream.parsed is not None
        states = tuple(
            replace(info, options=(("KEYED_STATE_TYPE", "REDUCING"),)) if info.name == "last" else info
            for info in stream.parsed.states
        )
        return replace(stream, parsed=replace(stream.parsed, states=states))

    b = with_changed_operators(a, lambda operator: replace(operator, keyed=tuple(map(as_reducing, operator.keyed))))
    state = only_unequal_state(diff(a, b))
    assert state.differences == (ListedDifference("other type", {}, "VALUE Long", "REDUCING Long"),)


def with_changed_header(directory: Path, state: str, old_bytes: bytes, new_bytes: bytes) -> Snapshot:
    """Return the snapshot after a change, of the same length, in the headers of one operator state."""
    for operator in (snapshot := open_snapshot(str(directory))).operators:
        for stream in operator.element_streams:
            assert stream.parsed is not None
            for info in (*stream.parsed.list_states, *stream.parsed.broadcast_states):
                if info.name == state:
                    file = Path(snapshot.files[stream.extent.file][0])
                    data, new_header = file.read_bytes(), info.raw.replace(old_bytes, new_bytes)
                    assert (data.count(info.raw), len(new_header), new_header != info.raw) == (1, len(info.raw), True)
                    file.write_bytes(data.replace(info.raw, new_header))
    return open_snapshot(str(directory))


@pytest.mark.parametrize(
    ("state", "type_in_a", "type_in_b"),
    [
        ("numbers", "SPLIT_DISTRIBUTE Long", "SPLIT_DISTRIBUTE Date"),
        ("no-offsets", "UNION Long", "UNION Date"),
        ("rates", "BROADCAST Long, String", "BROADCAST Date, String"),
    ],
)
def test_other_serializer_of_operator_state_is_a_difference(
    tmp_path: Path, state: str, type_in_a: str, type_in_b: str
) -> None:
    """The elements are the same bytes, if there are any."""
    b = with_changed_header(edited.relocated(CANONICAL, tmp_path), state, b"LongSerializer", b"DateSerializer")
    unequal_state = only_unequal_state(diff(snapshots.opened(CANONICAL), b))
    assert (unequal_state.state, unequal_state.differing_at_least) == (state, 1)
    assert unequal_state.differences == (ListedDifference("other type", {}, type_in_a, type_in_b),)
    assert unequal_state.a == unequal_state.b


def test_unknown_serializer_of_operator_state_is_a_difference(tmp_path: Path) -> None:
    a, b = snapshots.opened(CANONICAL), edited.relocated(CANONICAL, tmp_path)
    other = with_changed_header(b, "numbers", b"LongSerializer", b"LangSerializer")
    state = only_unequal_state(diff(a, other))
    assert (state.state, state.a) == ("numbers", state.b)
    (difference,) = state.differences
    assert (difference.found, difference.a) == ("other type", "SPLIT_DISTRIBUTE Long")
    assert "LangSerializer" in str(difference.b)
    assert diff(other, open_snapshot(str(b))).equal


def test_unreadable_headers_of_operator_state_that_differ_are_a_difference(tmp_path: Path) -> None:
    """The elements are compared and equal."""
    a, b = snapshots.opened(CANONICAL), edited.relocated(CANONICAL, tmp_path)
    other = with_changed_operators(
        with_changed_header(b, "numbers", b"LongSerializer", b"LangSerializer"), without_operator_headers
    )
    snapshot_difference = diff(a, other)
    assert not snapshot_difference.equal
    (operator,) = (operator for operator in snapshot_difference.operators if not operator.equal)
    (difference,) = operator.differences
    assert (difference.found, difference.item) == ("other value", {"operator": "headers of operator state"})
    assert "an unknown serializer in them" in str(difference.b)
    assert all(state.equal for state in operator.states)


def without_operator_headers(operator: Operator) -> Operator:
    return replace(operator, element_streams=tuple(replace(stream, parsed=None) for stream in operator.element_streams))


def unparsed(stream: KeyedStream) -> KeyedStream:
    return replace(stream, parsed=None)


def without_headers(snapshot: Snapshot) -> Snapshot:
    """Describe the snapshot as if the serializers of keyed state were unknown."""
    return with_changed_operators(
        snapshot, lambda operator: replace(operator, keyed=tuple(map(unparsed, operator.keyed)))
    )


def test_states_with_unknown_serializers_are_compared_by_number(result_of: Callable[[str], Result]) -> None:
    result = result_of("2-clicks")
    a = without_headers(snapshots.opened("2-clicks"))
    assert diff(a, without_headers(result.opened())).equal
    state = next(
        info.name
        for operator in a.operators
        for stream in snapshots.operator_of("2-clicks", operator.label).keyed
        if stream.parsed
        for info in stream.parsed.states
        if info.state_type == "VALUE"
    )
    (record, *_) = edit_records(result, state, first(with_other_value))
    unequal_state = only_unequal_state(diff(a, without_headers(result.opened())))
    assert unequal_state.state.startswith("state ")
    assert unequal_state.differences[0].item == {"key_bytes": f"0x{record.key.hex()}"}


def test_states_with_unknown_serializers_in_different_headers_are_refused() -> None:
    snapshot = without_headers(snapshots.opened("2-lazy"))
    with pytest.raises(UnsupportedError, match="an unknown serializer hides how"):
        diff(snapshot, snapshot)


def test_heap_states_in_another_order_with_an_unknown_serializer_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rescale.execution.compare.diff.pairs.can_delimit_entries", lambda _: False)
    a = snapshots.opened(HEAP)

    def with_reversed_states(stream: KeyedStream) -> KeyedStream:
        assert stream.parsed is not None
        return replace(stream, parsed=replace(stream.parsed, states=stream.parsed.states[::-1]))

    b = with_changed_operators(
        a, lambda operator: replace(operator, keyed=tuple(map(with_reversed_states, operator.keyed)))
    )
    with pytest.raises(UnsupportedError, match="heap backend do not mark where a state begins"):
        diff(a, b)
