"""Evenness of shapes, recommended shapes, and hot key groups."""

from __future__ import annotations

from random import Random

import pytest

from rescale.flink.keyed.key_group_table import Framing
from rescale.insight.key_group_sizes import KeyGroupSizes, estimated_number_of_keys, evenness
from rescale.insight.shapes import ShapeAdvice, evenness_at, hot_key_groups, shape_advice
from support.synthetic import keyed_stream, operator, own_stream


def advice(parallelism: int, sizes: list[int], *other_parallelisms: int) -> ShapeAdvice:
    return shape_advice(
        "id", "counts", parallelism, other_parallelisms, KeyGroupSizes(tuple(sizes), exact=True), 1.0, ()
    )


def test_evenness_is_the_largest_subtask_divided_by_the_mean() -> None:
    assert evenness([10, 10, 10]) == 1.0
    assert evenness([30, 0, 0]) == 3.0
    assert evenness([3, 1]) == 1.5
    assert evenness([0, 0]) == evenness([]) == 1.0
    assert evenness_at([1, 2, 3, 4], 2) == 1.4


@pytest.mark.parametrize(
    ("parallelism", "lower", "upper", "recommended"),
    [(100, 64, 128, 128), (70, 64, 128, 64), (6, 4, 8, 8), (32, 32, 32, 32), (1, 1, 1, 1)],
)
def test_divisor_nearest_to_the_requested_parallelism_is_recommended(
    parallelism: int, lower: int, upper: int, recommended: int
) -> None:
    recommendation = advice(parallelism, [1] * 128)
    assert (recommendation.lower, recommendation.upper, recommendation.recommended) == (lower, upper, recommended)


def test_parallelism_that_does_not_divide_leaves_capacity_idle() -> None:
    recommendation = advice(100, [10] * 128)
    requested = recommendation.requested
    assert requested.parallelism == 100
    assert (requested.least_key_groups, requested.most_key_groups) == (1, 2)
    assert requested.evenness == pytest.approx(20 * 100 / 1280)
    assert recommendation.idle == pytest.approx(1 - 1.28 / 2)
    assert advice(64, [10] * 128).idle == 0


def test_candidates_are_the_requested_parallelism_and_nearby_divisors() -> None:
    assert [c.parallelism for c in advice(6, [1] * 16, 2, 40).candidates] == [2, 4, 6, 8]


def test_recommended_max_parallelism_is_a_multiple_with_many_divisors() -> None:
    assert advice(6, [1] * 128).recommended_max_parallelism == 360
    assert advice(100, [1] * 128).recommended_max_parallelism == 1200
    assert advice(7, [1] * 27720).recommended_max_parallelism is None


@pytest.mark.parametrize("key_count", [1, 5, 40, 145, 300])
def test_few_keys_are_estimated_from_the_empty_key_groups(key_count: int) -> None:
    random = Random(key_count)
    guesses = []
    for _ in range(50):
        filled_groups = {random.randrange(128) for _ in range(key_count)}
        stream = keyed_stream(0, dict.fromkeys(filled_groups, 10), Framing.CANONICAL, first=0, last=127)
        guesses.append(estimated_number_of_keys(operator("counts", 1, keyed=(stream,))))
    known_guesses = [guess for guess in guesses if guess is not None]
    assert len(known_guesses) > 25
    assert sum(known_guesses) / len(known_guesses) == pytest.approx(key_count, rel=0.2)


def test_number_of_many_keys_is_not_estimated() -> None:
    assert estimated_number_of_keys(operator("counts", 1, keyed=(own_stream(0, 1, 128, Framing.CANONICAL),))) is None
    assert estimated_number_of_keys(operator("lists", 1)) is None
    assert advice(4, [1] * 128).few_keys is None
    for key_count, expected_few_keys in ((399, 399), (400, None)):
        recommendation = shape_advice("id", "counts", 4, (), KeyGroupSizes((1,) * 128, exact=True), 1.0, (), key_count)
        assert recommendation.few_keys == expected_few_keys


def test_key_group_of_half_a_mean_subtask_is_hot() -> None:
    sizes = [10] * 128
    sizes[17], sizes[90] = 2000, 300
    (first, second) = hot_key_groups(sizes, 8)
    assert (first.key_group, second.key_group) == (17, 90)
    assert first.share == pytest.approx(2000 / sum(sizes))
    assert [hot.key_group for hot in hot_key_groups(sizes, 4)] == [17]  # 300 is less than half of the mean subtask
    assert hot_key_groups([10] * 128, 128) == []
    assert hot_key_groups([0] * 128, 4) == []
