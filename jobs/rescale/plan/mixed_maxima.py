"""Different max parallelisms in one result, which break the state of chained operators.

Flink gives all operators of a chain one max parallelism (`StateAssignmentOperation.checkParallelismPreconditions` sets
it from each of them in turn) and reads the keyed state of all by the key groups that follow from it.
"""

from __future__ import annotations

from collections.abc import Iterable

WHY = (
    "Flink restores all operators of a chain with one of their max parallelisms, and keys of the others then end up in "
    "the wrong subtasks, mostly without an error. A snapshot does not say which operators are chained; the same max "
    "parallelism for all of them is safe"
)


def mixed_maxima(changes: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Return the new max parallelisms, sorted, if they differ and any is changed; none otherwise.

    `changes` holds the old and the new max parallelism of each operator. Operators whose new one is 1 do not count.
    """
    changes = list(changes)
    new = sorted({new for _, new in changes} - {1})
    return tuple(new) if len(new) > 1 and any(old != new for old, new in changes) else ()


def mixed_maxima_sentence(maxima: tuple[int, ...]) -> str:
    """Return a sentence on the effect of different max parallelisms, and why a run with them must be confirmed."""
    return f"operators get different max parallelisms ({' or '.join(map(str, maxima))}): {WHY}"
