"""Recognises different max parallelisms in one result, which break the state of chained operators.

Flink restores all operators of a chain with one max parallelism, and assigns their key groups by it. It takes the max
parallelism of the operator that `StateAssignmentOperation.checkParallelismPreconditions` checks last.
"""

from __future__ import annotations

from collections.abc import Iterable

_WHY_UNSAFE = (
    "Flink restores all operators of a chain with one of their max parallelisms, and keys of other operators then end "
    "up in the wrong subtasks, mostly without an error. A snapshot does not say which operators are chained; the same "
    "max parallelism for all operators is safe"
)


def mixed_maxima(old_and_new_maxima: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Return the new max parallelisms, sorted, if they differ and at least one operator gets a new one; else ().

    `old_and_new_maxima` holds the old and the new max parallelism of each operator. A new max parallelism of 1 does not
    count as different.
    """
    old_and_new_maxima = list(old_and_new_maxima)
    new_maxima = sorted({new for _, new in old_and_new_maxima} - {1})
    return tuple(new_maxima) if len(new_maxima) > 1 and any(old != new for old, new in old_and_new_maxima) else ()


def mixed_maxima_sentence(new_maxima: tuple[int, ...]) -> str:
    """Return a sentence on the effect of different max parallelisms, which a user must confirm."""
    return f"operators get different max parallelisms ({' or '.join(map(str, new_maxima))}): {_WHY_UNSAFE}"
