"""What does not fit is read again before anybody is told so.

A bit that flips on its way, in memory or on a wire, is another one the next time: another try then compares in peace.
Damage that lies in a store is the same at every look. Telling the first as the second has sound results thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rescale.errors import RequestError, RescaleError, SnapshotError, StoreError

R = TypeVar("R")

SIDES = SOURCE, RESULT = "source", "result"
EITHER = "source or the result"
"""Where what one of them says only shows beside the other."""

DOCUMENTS = "documents beside the target"
"""Our own: of a run they are all that its next step knows."""


def looked_at_again(work: Callable[[], R], side: str | None = None) -> R:
    """What `work` gives, which reads that side, or both. If it fails for good it is done once more.

    Its error then, if that is the same at both looks; `StoreError` if not, for something was misread.
    """
    try:
        return work()
    except RescaleError as error:
        if not error.final:
            raise
        first = error
    try:
        work()
    except RescaleError as second:
        if not second.final:
            raise
        if second.to_json() == first.to_json() or _both_refused(first, second):
            raise first from None
    raise misread([side or (SOURCE if isinstance(first, SnapshotError) else RESULT)], first)


def _both_refused(*errors: RescaleError) -> bool:
    """Whether the store refused both looks for the same reason, be it at another file: several are read at once."""
    return all(isinstance(error, RequestError) for error in errors) and len({(e.what, e.found) for e in errors}) == 1


def changed_sides(first: Sequence[object], again: Sequence[object]) -> list[str]:
    """Which sides gave something else at the second look, of what either gave."""
    return [side for side, one, other in zip(SIDES, first, again, strict=True) if one != other]


def misread(sides: Sequence[str], first: RescaleError) -> StoreError:
    """Of sides whose bytes were not the same twice; `first` is what the first look found."""
    return StoreError(
        f"the {' and the '.join(sides)} did not read the same twice",
        path=first.path,
        offset=first.offset,
        operator=first.operator,
        state=first.state,
        expected=first.expected,
        found=f"at the first look: {first.what}; at the second, something else",
        advice="a passing fault of memory, disk or network: another try compares again; if it comes back, look for it "
        "in this machine and on its way to the store",
    )
