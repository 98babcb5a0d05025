"""Good numbers."""

from __future__ import annotations

import pytest

from rescale.planning.request.good_maximum import good_max_parallelism


@pytest.mark.parametrize(
    ("parallelism", "present", "good"),
    [
        (6, 128, 360),  # 24 divisors, as 480 and 504 have
        (4, 128, 360),
        (3, 10, 48),
        (7, 128, 420),
        (100, 128, 1200),
        (100, 1000, 3600),
        (128, 128, 1920),
        (6, 360, 1260),
        (60, 720, 2520),
        (3000, 4096, 21000),
    ],
)
def test_a_multiple_with_many_divisors_that_leaves_room(parallelism: int, present: int, good: int) -> None:
    proposed = good_max_parallelism(parallelism, present)
    assert proposed == good
    assert proposed % parallelism == 0
    assert max(4 * parallelism, present) <= proposed <= 4 * max(4 * parallelism, present)


@pytest.mark.parametrize(
    ("parallelism", "present"),
    [(6, 27720), (7, 27720), (10, 27720), (20000, 32768), (7000, 30000), (32768, 32768)],
)
def test_the_present_one_stays_where_none_is_better(parallelism: int, present: int) -> None:
    assert good_max_parallelism(parallelism, present) == present


@pytest.mark.parametrize(("parallelism", "good"), [(10000, 30000), (20000, 20000), (9000, 27000)])
def test_where_there_is_no_room_for_four_times_it_is_a_multiple_at_least(parallelism: int, good: int) -> None:
    assert good_max_parallelism(parallelism, 128) == good
