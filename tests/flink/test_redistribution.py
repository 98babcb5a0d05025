"""How operator state is dealt, against figures worked by hand from Flink's rule and seen in a real job."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.redistribution import StateLayout, StateShare, java_string_hash, redistribute

SPLIT, UNION, BROADCAST = DistributionMode


def elements(share: StateShare) -> list[tuple[int, int]]:
    return [(run.source, i) for run in share.runs for i in range(run.first, run.first + run.count)]


def named(shares: list[StateShare], name: str) -> list[tuple[int, int]]:
    return next(elements(share) for share in shares if share.name == name)


A = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]
B = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize(
    ("parallelism", "of_a", "of_b"),
    [
        (3, [[0, 1, 2], [3, 4], [5, 6]], [[4], [0, 1], [2, 3]]),
        (4, [[0, 1], [2, 3], [4, 5], [6]], [[2], [3], [4], [0, 1]]),
    ],
)
def test_split_is_dealt_as_flink_deals_it(parallelism: int, of_a: list[list[int]], of_b: list[list[int]]) -> None:
    old = [
        [StateLayout("A", SPLIT, 3), StateLayout("B", SPLIT, 2)],
        [StateLayout("A", SPLIT, 4), StateLayout("B", SPLIT, 3)],
    ]
    new = redistribute(old, parallelism)
    assert [named(shares, "A") for shares in new] == [[A[i] for i in run] for run in of_a]
    assert [named(shares, "B") for shares in new] == [[B[i] for i in run] for run in of_b]


def test_runs_are_consecutive() -> None:
    old = [[StateLayout("s", SPLIT, 2)], [StateLayout("s", SPLIT, 2)]]
    assert [named(shares, "s") for shares in redistribute(old, 3)] == [[(0, 0), (0, 1)], [(1, 0)], [(1, 1)]]


def test_broadcast_copies_go_round() -> None:
    old = [[StateLayout("b", BROADCAST, 1)], [], [StateLayout("b", BROADCAST, 1)]]
    assert [named(shares, "b") for shares in redistribute(old, 5)] == [[(i, 0)] for i in (0, 2, 0, 2, 0)]


def test_the_same_parallelism_leaves_everything() -> None:
    old = [[StateLayout("s", SPLIT, 5), StateLayout("u", UNION, 1)], []]
    new = redistribute(old, 2)
    assert named(new[0], "s") == [(0, i) for i in range(5)]
    assert new[1] == []


@pytest.mark.parametrize(
    ("text", "code"), [("", 0), ("hello", 99162322), ("orders", -1008770331), ("\U0001f600", 1772899)]
)
def test_string_hash(text: str, code: int) -> None:
    assert java_string_hash(text) == code


layouts = st.lists(
    st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=20).map(
        lambda found: [StateLayout(name, DistributionMode(len(name) % 2), count) for name, count in found.items()]
    ),
    min_size=1,
    max_size=5,
)


@given(layouts, st.integers(1, 7))
def test_every_element_goes_to_one_subtask(old: list[list[StateLayout]], parallelism: int) -> None:
    new = redistribute(old, parallelism)
    assert len(new) == parallelism
    dealt = Counter((share.name, *element) for shares in new for share in shares for element in elements(share))
    stored = Counter(
        (state.name, source, i) for source, layout in enumerate(old) for state in layout for i in range(state.elements)
    )
    assert dealt == stored
    if parallelism != len(old):
        for name in {state.name for layout in old for state in layout}:
            counts = [len(named(shares, name)) for shares in new]
            assert max(counts) - min(counts) <= 1


def run_by_run(counts: list[int], position: int, count: int) -> list[tuple[int, int]]:
    """The slow twin: all elements put end to end."""
    return [(source, i) for source, elements in enumerate(counts) for i in range(elements)][position : position + count]


@given(st.lists(st.integers(0, 5), max_size=12), st.integers(1, 12))
def test_a_run_is_found_without_a_walk(counts: list[int], parallelism: int) -> None:
    total, at = sum(counts), 0
    dealt = redistribute([[StateLayout("u", UNION, count)] for count in counts] or [[]], parallelism)
    if parallelism == max(len(counts), 1):
        return
    for subtask, shares in enumerate(dealt):
        count = total // parallelism + (subtask < total % parallelism)
        assert [one for share in shares for one in elements(share)] == run_by_run(counts, at, count)
        assert all(run.count for share in shares for run in share.runs)
        at += count
    assert at == total
