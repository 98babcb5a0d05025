"""A new stream is compared with the streams that a search of all pairs finds, after far fewer comparisons."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.execution.compare.validation.coverage import check_elements, check_rekeyed, pair_key_groups
from rescale.execution.compare.validation.headers import ElementHeaderComparer, KeyedHeaderComparer, distinct_by_header
from rescale.flink.key_group_index import KeyGroupIndex
from rescale.flink.key_groups import KeyGroupRange, key_group_range
from rescale.flink.keyed.header import KeyedHeader, merge_keyed_headers, read_keyed_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.operator_state import OperatorStateHeader, merge_operator_state_headers
from rescale.flink.slot import Slot
from rescale.flink.state_meta_info import StateMetaInfo
from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.model import ElementStream, Operator
from rescale.text.errors import IntegrityError
from support.snapshot_bytes import keyed_header, keyed_state
from support.synthetic import element_stream, keyed_stream, operator


class Ranged(NamedTuple):
    number: int
    key_groups: KeyGroupRange


def compared_with_each(streams: Sequence[Ranged], own: KeyGroupRange) -> list[Ranged]:
    """Return the streams that share key groups with a range: the slow twin of `KeyGroupIndex.overlapping`."""
    return [stream for stream in streams if len(stream.key_groups.intersection(own))]


ranges = st.builds(lambda first, size: KeyGroupRange(first, first + size - 1), st.integers(0, 60), st.integers(0, 12))


@given(st.lists(ranges, max_size=30), st.lists(ranges, min_size=1, max_size=10))
def test_index_returns_all_streams_that_share_key_groups(
    other_ranges: list[KeyGroupRange], own_ranges: list[KeyGroupRange]
) -> None:
    """Ranges may overlap, be empty, and come in any order."""
    streams = [Ranged(i, key_groups) for i, key_groups in enumerate(other_ranges)]
    index = KeyGroupIndex(streams)
    for own in own_ranges:
        assert index.overlapping(own) == compared_with_each(streams, own)


@given(st.integers(1, 200), st.integers(1, 50), st.integers(1, 50))
def test_index_finds_the_old_streams_of_every_new_subtask(
    max_parallelism: int, old_parallelism: int, new_parallelism: int
) -> None:
    old_parallelism, new_parallelism = min(old_parallelism, max_parallelism), min(new_parallelism, max_parallelism)
    streams = [Ranged(i, key_group_range(max_parallelism, old_parallelism, i)) for i in range(old_parallelism)]
    index = KeyGroupIndex(streams)
    for i in range(new_parallelism):
        own = key_group_range(max_parallelism, new_parallelism, i)
        assert index.overlapping(own) == compared_with_each(streams, own)


def header_of(*names: str) -> KeyedHeader:
    return read_keyed_header(keyed_header(*map(keyed_state, names)), "")


HEADERS = [header_of("a", "b"), header_of("b", "a"), header_of("a"), header_of("c", "a"), header_of()]


def with_header(subtask: int, header: KeyedHeader) -> KeyedStream:
    return keyed_stream(subtask, {}, Framing.CANONICAL, header, first=0, last=0)


def has_additional_state(states: Sequence[StateMetaInfo], other_headers: Sequence[Sequence[StateMetaInfo]]) -> bool:
    """Return whether `states` has a state that is in none of `other_headers`."""
    return not {state.name for state in states} <= {
        state.name for header_states in other_headers for state in header_states
    }


def merged_one_by_one(old_holders: Sequence[KeyedStream], stream: KeyedStream) -> dict[int, tuple[int, ...]] | None:
    """Return the id tables by subtask, or None if the header of `stream` is not that of all streams merged.

    It is the slow twin of `KeyedHeaderComparer`.
    """
    parsed = [candidate.parsed for candidate in (stream, *old_holders) if candidate.parsed is not None]
    merged = merge_keyed_headers(parsed)
    if merged.header != stream.parsed or has_additional_state(
        parsed[0].states, [header.states for header in parsed[1:]]
    ):
        return None
    tables = zip(old_holders, merged.id_maps[1:], strict=True)
    return {old_holder.subtask: table for old_holder, table in tables if table != tuple(range(len(table)))}


@given(st.lists(st.tuples(st.sampled_from(HEADERS), st.lists(st.sampled_from(HEADERS), min_size=1)), min_size=1))
def test_headers_are_compared_as_if_merged_one_by_one(streams: list[tuple[KeyedHeader, list[KeyedHeader]]]) -> None:
    comparer = KeyedHeaderComparer("op")
    for own, other_headers in streams:
        stream, old_holders = with_header(0, own), [with_header(i, header) for i, header in enumerate(other_headers)]
        expected = merged_one_by_one(old_holders, stream)
        if expected is None:
            with pytest.raises(IntegrityError, match="header of subtask 0"):
                comparer.compare(distinct_by_header(old_holders), stream)
        else:
            tables = comparer.compare(distinct_by_header(old_holders), stream)
            assert {g.subtask: tables[g.header] for g in old_holders if g.header in tables} == expected


def listing_header(*names: str) -> OperatorStateHeader:
    return OperatorStateHeader(6, False, header_of(*names).states, ())


@given(
    st.lists(
        st.tuples(
            st.sampled_from([listing_header("a", "b"), listing_header("b"), listing_header("b", "a")]),
            st.lists(
                st.sampled_from([listing_header("a", "b"), listing_header("b"), listing_header("b", "a")]), min_size=1
            ),
        ),
        min_size=1,
    )
)
def test_operator_state_headers_are_compared_as_if_merged_one_by_one(
    streams: list[tuple[OperatorStateHeader, list[OperatorStateHeader]]],
) -> None:
    comparer = ElementHeaderComparer("op")
    for own, other_headers in streams:
        stream, old_holders = (
            element_stream(0, {}, own),
            [element_stream(i, {}, header) for i, header in enumerate(other_headers)],
        )
        has_more = has_additional_state(own.list_states, [header.list_states for header in other_headers])
        if merge_operator_state_headers([own, *other_headers]) == own and not has_more:
            comparer.compare(distinct_by_header(old_holders), stream)
        else:
            with pytest.raises(IntegrityError, match="operator-state header of subtask 0"):
                comparer.compare(distinct_by_header(old_holders), stream)


class Counters:
    """Numbers of intersections of two ranges and of merged headers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.intersections = self.merged_headers = 0
        intersection = KeyGroupRange.intersection

        def counting_intersection(mine: KeyGroupRange, other: KeyGroupRange) -> KeyGroupRange:
            self.intersections += 1
            return intersection(mine, other)

        def counting_merge(headers: Sequence[KeyedHeader], left_out: Collection[str]) -> object:
            self.merged_headers += len(headers)
            return merge_keyed_headers(headers, left_out)

        monkeypatch.setattr(KeyGroupRange, "intersection", counting_intersection)
        monkeypatch.setattr("rescale.execution.compare.validation.headers.merge_keyed_headers", counting_merge)


OLD_PARALLELISM, NEW_PARALLELISM, MAX_PARALLELISM = 1000, 800, 4096


def keyed(parallelism: int, max_parallelism: int, headers: Sequence[KeyedHeader]) -> Operator:
    streams = []
    for subtask in range(parallelism):
        own = key_group_range(max_parallelism, parallelism, subtask)
        groups = dict.fromkeys(range(own.first, own.last + 1), 10)
        header = headers[subtask % len(headers)]
        streams.append(keyed_stream(subtask, groups, Framing.CANONICAL, header, first=own.first, last=own.last, file=1))
    return operator("op", parallelism, max_parallelism, keyed=tuple(streams))


def test_key_groups_of_a_thousand_subtasks_are_paired_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (
        keyed(OLD_PARALLELISM, MAX_PARALLELISM, HEADERS[:1]),
        keyed(NEW_PARALLELISM, MAX_PARALLELISM, HEADERS[:1]),
    )
    counters = Counters(monkeypatch)
    assert len(pair_key_groups(old, new, Slot.KEYED)) == MAX_PARALLELISM
    assert counters.intersections < 3 * (OLD_PARALLELISM + NEW_PARALLELISM)
    assert counters.merged_headers == 0


def test_headers_are_merged_once_per_distinct_header_if_records_move(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (
        keyed(OLD_PARALLELISM, MAX_PARALLELISM, HEADERS[:3]),
        keyed(NEW_PARALLELISM, 2 * MAX_PARALLELISM, HEADERS[:1]),
    )
    counters = Counters(monkeypatch)
    check_rekeyed(old, new)
    assert counters.intersections == 0
    assert counters.merged_headers == 4, "three different old headers, and the new one"


def test_operator_state_headers_are_merged_once_per_distinct_header(monkeypatch: pytest.MonkeyPatch) -> None:
    merged_counts = []

    def counting_merge(headers: Sequence[OperatorStateHeader]) -> OperatorStateHeader:
        merged_counts.append(len(headers))
        return merge_operator_state_headers(headers)

    monkeypatch.setattr("rescale.execution.compare.validation.headers.merge_operator_state_headers", counting_merge)

    def streams_with(parallelism: int, headers: Sequence[OperatorStateHeader]) -> tuple[ElementStream, ...]:
        states = {"a": (DistributionMode.SPLIT_DISTRIBUTE, 1)}
        return tuple(element_stream(i, states, headers[i % len(headers)]) for i in range(parallelism))

    for after in (NEW_PARALLELISM, OLD_PARALLELISM):
        both = [listing_header("a", "b"), listing_header("a")]
        old = operator("op", OLD_PARALLELISM, elements=streams_with(OLD_PARALLELISM, both))
        new = operator("op", after, elements=streams_with(after, both if after == OLD_PARALLELISM else both[:1]))
        check_elements(old, new, Slot.OPERATOR)
    assert merged_counts == [3]
