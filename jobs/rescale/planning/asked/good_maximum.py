"""Good numbers: a max parallelism that leaves room and divides well."""

from __future__ import annotations

from rescale.flink.key_groups import UPPER_BOUND_MAX_PARALLELISM

_ROOM = 4
"""A good maximum is at least so many times the parallelism, and at most so many times what it must be at least."""


def good_max_parallelism(parallelism: int, present: int) -> int:
    """A multiple of `parallelism`, so that every subtask owns as many key groups, and one with many divisors.

    It is never below the `present` maximum, for nobody wants to have less room than before, and lies between F =
    max(4 × parallelism, present) and 4 × F, as far as Flink allows: enough for growth, and not so many key groups that
    they cost something. Of those with most divisors, each of them an even parallelism, it is the smallest. It is the
    present one where that is among the best, or where none is left.
    """
    least = max(_ROOM * parallelism, present)
    if least > UPPER_BOUND_MAX_PARALLELISM:  # no room: then at least a multiple
        least = max(parallelism, present)
    most = min(_ROOM * least, UPPER_BOUND_MAX_PARALLELISM)
    multiples = range(-(-least // parallelism) * parallelism, most + 1, parallelism)
    return max(multiples, key=lambda number: (_divisors(number), -number), default=present)


def _divisors(number: int) -> int:
    small = [divisor for divisor in range(1, int(number**0.5) + 1) if number % divisor == 0]
    return 2 * len(small) - (small[-1] ** 2 == number)
