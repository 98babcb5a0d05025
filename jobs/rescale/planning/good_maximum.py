"""Good numbers: a max parallelism that leaves room and divides well."""

from __future__ import annotations

from rescale.flink.key_groups import UPPER_BOUND_MAX_PARALLELISM

_LEAST, _MOST = 4, 16


def good_max_parallelism(parallelism: int) -> int:
    """A multiple of `parallelism`, so that every subtask owns as many key groups, and one with many divisors.

    It lies between 4 and 16 times the parallelism, as far as Flink allows: enough for growth, and not so many key
    groups that they cost something. Of those with most divisors, each of them an even parallelism, it is the smallest.
    """
    most = min(_MOST, UPPER_BOUND_MAX_PARALLELISM // parallelism)
    multiples = [factor * parallelism for factor in range(min(_LEAST, most), most + 1)]
    return max(multiples, key=lambda number: (_divisors(number), -number))


def _divisors(number: int) -> int:
    return sum(number % divisor == 0 for divisor in range(1, number + 1))
