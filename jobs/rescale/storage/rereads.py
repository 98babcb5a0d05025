"""Read twice before reporting a mismatch.

A bit that flipped in memory or on the wire is correct in the next read; damage in the store is the same in every read.
Without the second read, a flipped bit would be reported as damage, and users would throw away sound results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rescale.text.errors import RequestError, RescaleError, SnapshotError, StoreError

R = TypeVar("R")

SIDES = SOURCE, RESULT = "source", "result"
EITHER_SIDE = "source or the result"
"""Text for the side of a mismatch that only a comparison of source and result shows."""

DOCUMENTS = "documents beside the target"
"""Text for the side of a mismatch in the documents of a run; a step gets all its input from these documents."""


def read_again_on_failure(read: Callable[[], R], side: str | None = None) -> R:
    """Return the result of `read`. If `read` raises a final error (`is_final`), call it again.

    `side` is the side that `read` reads; None if it reads source and result. Raises the final error if both calls raise
    it, else `StoreError`, because one of the two reads was wrong.
    """
    try:
        return read()
    except RescaleError as error:
        if not error.is_final:
            raise
        first_error = error
    try:
        read()
    except RescaleError as second:
        if not second.is_final:
            raise
        if second.document() == first_error.document() or _is_refused_twice(first_error, second):
            raise first_error from None
    raise misread_error([side or (SOURCE if isinstance(first_error, SnapshotError) else RESULT)], first_error)


def _is_refused_twice(*errors: RescaleError) -> bool:
    """Tell whether the store refused both reads for the same reason. Reads run in parallel, so the files may differ."""
    return all(isinstance(error, RequestError) for error in errors) and len({(e.what, e.found) for e in errors}) == 1


def changed_sides(first_values: Sequence[object], second_values: Sequence[object]) -> list[str]:
    """Return the sides whose two reads differ; both sequences have an entry for each of `SIDES`."""
    return [side for side, old, new in zip(SIDES, first_values, second_values, strict=True) if old != new]


def misread_error(sides: Sequence[str], first_error: RescaleError) -> StoreError:
    """Return the error for sides whose two reads differ; `first_error` is that of the first read."""
    return StoreError(
        f"two reads of the {' and the '.join(sides)} differ",
        path=first_error.path,
        offset=first_error.offset,
        operator=first_error.operator,
        state=first_error.state,
        expected=first_error.expected,
        found=f"in the first read: {first_error.what}; in the second read, something else",
        advice="this is a transient fault of memory, disk or network: another try reads again. If it happens again, "
        "check this machine and the network to the store",
    )
