"""Good numbers."""

from __future__ import annotations

import pytest

from rescale.planning.good_maximum import good_max_parallelism


@pytest.mark.parametrize(
    ("parallelism", "good"),
    [(1, 12), (2, 24), (3, 48), (7, 84), (100, 1200), (128, 1920), (3000, 21000), (20000, 20000)],
)
def test_a_good_maximum_is_a_multiple_with_many_divisors(parallelism: int, good: int) -> None:
    assert good_max_parallelism(parallelism) == good
