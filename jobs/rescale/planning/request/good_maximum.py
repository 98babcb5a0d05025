"""The choice of a good max parallelism: one that leaves room for growth, and divides well."""

from __future__ import annotations

from rescale.flink.key_groups import UPPER_BOUND_MAX_PARALLELISM

_ROOM = 4
"""Smallest ratio of a good maximum to the parallelism, and largest ratio to the lower bound that follows from it."""


def good_max_parallelism(parallelism: int, present: int) -> int:
    """Return the smallest multiple of `parallelism` with the most divisors, between F and 4 × F.

    A multiple gives every subtask as many key groups, and each divisor is another parallelism that does. F is
    max(4 × parallelism, `present`): enough for growth, and never less room than the job has now. 4 × F, or Flink's
    largest value, keeps the cost of key groups small. Returns `present` if no multiple lies in between.
    """
    least = max(_ROOM * parallelism, present)
    if least > UPPER_BOUND_MAX_PARALLELISM:  # there is no room to grow, so a multiple is enough
        least = max(parallelism, present)
    most = min(_ROOM * least, UPPER_BOUND_MAX_PARALLELISM)
    multiples = range(-(-least // parallelism) * parallelism, most + 1, parallelism)
    return max(multiples, key=lambda number: (_divisors(number), -number), default=present)


def _divisors(number: int) -> int:
    small = [divisor for divisor in range(1, int(number**0.5) + 1) if number % divisor == 0]
    return 2 * len(small) - (small[-1] ** 2 == number)
