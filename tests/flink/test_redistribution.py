"""Redistribution of operator state, compared with figures from Flink's rule and from a real job."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.flink.keys.java_strings import java_string_hash
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.redistribution import StateLayout, StateShare, redistribute

SPLIT, UNION, BROADCAST = DistributionMode


def elements(share: StateShare) -> list[tuple[int, int]]:
    return [(run.source, i) for run in share.runs for i in range(run.first, run.first + run.count)]


def elements_of_state(shares: list[StateShare], name: str) -> list[tuple[int, int]]:
    return next(elements(share) for share in shares if share.name == name)


ELEMENTS_OF_A = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]
ELEMENTS_OF_B = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize(
    ("parallelism", "runs_of_a", "runs_of_b"),
    [
        (3, [[0, 1, 2], [3, 4], [5, 6]], [[4], [0, 1], [2, 3]]),
        (4, [[0, 1], [2, 3], [4, 5], [6]], [[2], [3], [4], [0, 1]]),
    ],
)
def test_split_elements_are_dealt_as_flink_deals_them(
    parallelism: int, runs_of_a: list[list[int]], runs_of_b: list[list[int]]
) -> None:
    old = [
        [StateLayout("A", SPLIT, 3), StateLayout("B", SPLIT, 2)],
        [StateLayout("A", SPLIT, 4), StateLayout("B", SPLIT, 3)],
    ]
    new = redistribute(old, parallelism)
    assert [elements_of_state(shares, "A") for shares in new] == [[ELEMENTS_OF_A[i] for i in run] for run in runs_of_a]
    assert [elements_of_state(shares, "B") for shares in new] == [[ELEMENTS_OF_B[i] for i in run] for run in runs_of_b]


def test_split_elements_are_dealt_in_consecutive_runs() -> None:
    old = [[StateLayout("s", SPLIT, 2)], [StateLayout("s", SPLIT, 2)]]
    assert [elements_of_state(shares, "s") for shares in redistribute(old, 3)] == [[(0, 0), (0, 1)], [(1, 0)], [(1, 1)]]


def test_broadcast_copies_are_spread_round_robin() -> None:
    old = [[StateLayout("b", BROADCAST, 1)], [], [StateLayout("b", BROADCAST, 1)]]
    assert [elements_of_state(shares, "b") for shares in redistribute(old, 5)] == [[(i, 0)] for i in (0, 2, 0, 2, 0)]


def test_subtasks_without_a_broadcast_copy_are_skipped() -> None:
    """Some subtasks, or all, may list a state without having a copy of it."""
    old = [[StateLayout("b", BROADCAST, count)] for count in (0, 1, 1)]
    assert [elements_of_state(shares, "b") for shares in redistribute(old, 4)] == [[(i, 0)] for i in (1, 2, 1, 2)]
    without_copies = [[StateLayout("b", BROADCAST, 0)], []]
    assert [elements_of_state(shares, "b") for shares in redistribute(without_copies, 3)] == [[], [], []]


@pytest.mark.parametrize(
    ("state_count", "order"),
    [
        (
            5,
            "0-7919 1-15838 0-31676 1-7919 0-23757 0-15838 0-0 1-31676 1-0 1-23757",
        ),
        (
            13,
            "1-87109 1-15838 1-55433 0-0 1-0 1-63352 0-47514 0-79190 1-47514 0-31676 0-71271 0-95028 0-39595 0-7919 "
            "0-23757 1-79190 0-15838 1-31676 0-87109 0-63352 1-95028 1-7919 1-39595 1-71271 1-23757 0-55433",
        ),
        (
            30,
            "1-182137 0-182137 1-15838 1-0 1-63352 0-126704 1-166299 1-126704 1-47514 0-31676 0-95028 0-39595 0-7919 "
            "0-221732 0-134623 0-23757 1-31676 0-174218 1-142542 1-118785 1-205894 0-158380 1-39595 0-150461 1-197975 "
            "0-102947 0-55433 1-87109 1-110866 0-110866 1-55433 0-0 0-47514 0-79190 1-190056 0-229651 0-71271 "
            "1-229651 0-190056 1-213813 0-213813 1-134623 1-79190 0-15838 1-221732 0-87109 0-142542 0-63352 0-166299 "
            "0-118785 1-158380 1-174218 1-95028 1-7919 0-205894 1-150461 1-102947 1-71271 1-23757 0-197975",
        ),
    ],
)
def test_states_come_in_the_order_of_javas_hash_maps(state_count: int, order: str) -> None:
    """The expected orders were recorded from a `HashMap` of Java 17.

    They cover tables that grow, full buckets, and hashes beyond 16 bits. Since each state here has one element, subtask
    i gets the i-th state in that order.
    """
    old = [[StateLayout(f"state-of-subtask-{s}-{i * 7919}", SPLIT, 1) for i in range(state_count)] for s in range(2)]
    new = redistribute(old, 2 * state_count)
    names_in_order = [share.name.removeprefix("state-of-subtask-") for shares in new for share in shares if share.runs]
    assert names_in_order == order.split()


@pytest.mark.parametrize(
    ("state_count", "every", "subtasks", "order"),
    [
        (12, 1, 1, "79190 71271 31676 7919 55433 47514 87109 15838 63352 39595 23757 0"),
        (13, 1, 1, "79190 71271 7919 31676 55433 47514 87109 15838 95028 63352 39595 23757 0"),
        (
            24,
            1,
            1,
            "71271 31676 158380 142542 118785 55433 126704 102947 95028 150461 39595 23757 79190 7919 47514 174218 "
            "87109 134623 15838 182137 63352 166299 110866 0",
        ),
        (
            25,
            1,
            1,
            "71271 31676 158380 118785 55433 142542 126704 102947 95028 150461 39595 23757 190056 79190 7919 47514 "
            "174218 87109 134623 15838 182137 63352 166299 110866 0",
        ),
        (26, 2, 1, "79190 31676 158380 142542 47514 174218 126704 15838 95028 63352 110866 190056 0"),
        (30, 3, 1, "71271 213813 118785 142542 47514 95028 166299 23757 190056 0"),
        (13, 1, 2, "71271 31676 55433 95028 39595 23757 79190 7919 47514 87109 15838 63352 0"),
        (26, 2, 2, "31676 158380 142542 126704 95028 190056 79190 47514 174218 15838 63352 110866 0"),
    ],
)
def test_map_of_a_handle_orders_all_states_and_map_of_the_repartitioner_those_of_one_mode(
    state_count: int, every: int, subtasks: int, order: str
) -> None:
    """The expected orders were recorded from two maps of Java 17, for `subtasks` that list the same states.

    The map of a handle was created with room for all `state_count` states, of which each `every`-th has the mode
    SPLIT_DISTRIBUTE. The map of the repartitioner has only the states of this mode; it grows before it looks one up.
    """
    layout = [StateLayout(f"state-{i * 7919}", BROADCAST if i % every else SPLIT, 1) for i in range(state_count)]
    new = redistribute([layout] * subtasks, subtasks * len(order.split()))
    names_in_order = [share.name for shares in new for share in shares if share.mode is SPLIT and share.runs]
    assert [name.removeprefix("state-") for name in names_in_order] == [
        name for name in order.split() for _ in range(subtasks)
    ]


def test_same_parallelism_leaves_all_elements_in_place() -> None:
    old = [[StateLayout("s", SPLIT, 5), StateLayout("u", UNION, 1)], []]
    new = redistribute(old, 2)
    assert elements_of_state(new[0], "s") == [(0, i) for i in range(5)]
    assert new[1] == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("hello", 99162322),
        ("orders", -1008770331),
        ("\U0001f600", 1772899),
        ("payments", 1382682413),
        ("polygenelubricants", -2147483648),
    ],
)
def test_java_string_hash_equals_that_of_java(text: str, code: int) -> None:
    assert java_string_hash(text) == code


layouts = st.lists(
    st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=20).map(
        lambda counts: [StateLayout(name, DistributionMode(len(name) % 2), count) for name, count in counts.items()]
    ),
    min_size=1,
    max_size=5,
)


@given(layouts, st.integers(1, 7))
def test_every_element_goes_to_one_subtask(old: list[list[StateLayout]], parallelism: int) -> None:
    new = redistribute(old, parallelism)
    assert len(new) == parallelism
    dealt = Counter((share.name, *element) for shares in new for share in shares for element in elements(share))
    dealt_elements = Counter(
        (state.name, source, i)
        for source, layout in enumerate(old)
        for state in layout
        for i in range(state.element_count)
    )
    assert dealt == dealt_elements
    if parallelism != len(old):
        for name in {state.name for layout in old for state in layout}:
            counts = [len(elements_of_state(shares, name)) for shares in new]
            assert max(counts) - min(counts) <= 1


def slice_of_all_elements(counts: list[int], position: int, count: int) -> list[tuple[int, int]]:
    """Slow twin of the rule: list the elements of all old subtasks, one after the other, and take a slice."""
    return [(source, i) for source, element_count in enumerate(counts) for i in range(element_count)][
        position : position + count
    ]


@given(st.lists(st.integers(0, 5), max_size=12), st.integers(1, 12))
def test_union_runs_equal_those_of_the_slow_twin(counts: list[int], parallelism: int) -> None:
    total, at = sum(counts), 0
    dealt = redistribute([[StateLayout("u", UNION, count)] for count in counts] or [[]], parallelism)
    if parallelism == max(len(counts), 1):
        return
    for subtask, shares in enumerate(dealt):
        count = total // parallelism + (subtask < total % parallelism)
        assert [element for share in shares for element in elements(share)] == slice_of_all_elements(counts, at, count)
        assert all(run.count for share in shares for run in share.runs)
        at += count
    assert at == total
