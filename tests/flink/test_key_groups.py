"""Key-group arithmetic, compared with figures from Flink, and checked for consistency."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.flink.key_groups import (
    KeyGroupRange,
    key_group_of_hash,
    key_group_range,
    murmur,
    prefix_size,
    subtask_of_key_group,
)


@pytest.mark.parametrize(
    ("code", "murmur_code", "group_of_128", "group_of_1000"),
    [
        (0, 593689054, 94, 54),
        (1, 68075478, 86, 478),
        (-1, 1982413648, 80, 648),
        (42, 1134849565, 29, 565),
        (127, 1931274395, 27, 395),
        (128, 132521001, 41, 1),
        (123456789, 1088346449, 81, 449),
        (2147483647, 1653689534, 62, 534),
        (-2147483648, 1718298732, 108, 732),
        (99162322, 1715862179, 35, 179),
    ],
)
def test_murmur_and_key_groups_equal_those_of_flink(
    code: int, murmur_code: int, group_of_128: int, group_of_1000: int
) -> None:
    assert murmur(code) == murmur_code
    assert key_group_of_hash(code, 128) == group_of_128
    assert key_group_of_hash(code, 1000) == group_of_1000


@pytest.mark.parametrize(
    ("max_parallelism", "parallelism", "ranges"),
    [
        (128, 3, [(0, 42), (43, 85), (86, 127)]),
        (128, 5, [(0, 25), (26, 51), (52, 76), (77, 102), (103, 127)]),
        (10, 4, [(0, 2), (3, 4), (5, 7), (8, 9)]),
    ],
)
def test_key_group_ranges_equal_those_of_flink(
    max_parallelism: int, parallelism: int, ranges: list[tuple[int, int]]
) -> None:
    own_ranges = [key_group_range(max_parallelism, parallelism, i) for i in range(parallelism)]
    assert own_ranges == [KeyGroupRange(*bounds) for bounds in ranges]


@pytest.mark.parametrize(("first", "last", "key_groups"), [(3, 5, [3, 4, 5]), (7, 7, [7]), (4, 3, []), (9, 3, [])])
def test_range_iterates_over_the_key_groups_that_it_contains(first: int, last: int, key_groups: list[int]) -> None:
    group_range = KeyGroupRange(first, last)
    assert [*group_range] == [key_group for key_group in range(12) if key_group in group_range] == key_groups
    assert len(group_range) == len(key_groups)


@given(st.integers(1, 2000).flatmap(lambda m: st.tuples(st.just(m), st.integers(1, m))))
def test_every_key_group_has_one_owner(shape: tuple[int, int]) -> None:
    max_parallelism, parallelism = shape
    next_group = 0
    for subtask in range(parallelism):
        own_groups = key_group_range(max_parallelism, parallelism, subtask)
        assert own_groups.first == next_group
        next_group = own_groups.last + 1
        for key_group in {own_groups.first, own_groups.last}:
            assert subtask_of_key_group(max_parallelism, parallelism, key_group) == subtask
    assert next_group == max_parallelism


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(1, 1 << 15))
def test_key_group_at_a_divisor_is_the_old_key_group_modulo_the_divisor(code: int, max_parallelism: int) -> None:
    assert key_group_of_hash(code, 2 * max_parallelism) % max_parallelism == key_group_of_hash(code, max_parallelism)


def test_empty_range_has_length_0_and_prints_as_none() -> None:
    """This includes the intersection of two disjoint ranges, whose end lies well before its start."""
    empty_range = KeyGroupRange(0, 3).intersection(KeyGroupRange(9, 12))
    assert (len(empty_range), str(empty_range), 5 in empty_range) == (0, "none", False)
    assert (len(KeyGroupRange(4, 4)), str(KeyGroupRange(4, 4))) == (1, "4-4")


def test_key_group_has_two_bytes_above_max_parallelism_128() -> None:
    assert [prefix_size(most) for most in (1, 128, 129, 32768)] == [1, 1, 2, 2]


def test_hash_that_mixes_to_the_smallest_integer_is_0() -> None:
    """`MathUtils.murmurHash` returns 0 for this code, which was found by inverting the mix of `Integer.MIN_VALUE`."""
    assert murmur(-2089875627) == 0


def test_a_range_ends_with_its_last_key_group() -> None:
    assert [key_group in KeyGroupRange(3, 5) for key_group in range(2, 7)] == [False, True, True, True, False]
