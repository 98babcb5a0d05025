"""Reads source or result: errors of the source are passed on, errors of the result become `IntegrityError`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Protocol, TypeVar

from rescale.storage.rereads import RESULT, SOURCE, read_again_on_failure
from rescale.text.errors import IntegrityError, RescaleError, SnapshotError

R = TypeVar("R")


class OneSidedTally(Protocol):
    """Outcome of a check that reads only the source or only the result."""

    @property
    def in_result(self) -> bool: ...


def read_side(read_records: Callable[[], R], label: str, *, in_result: bool, advice: str | None = None) -> R:
    """Call `read_records`, which reads records of an operator in source or result; call it again if it fails.

    Errors name the operator. Raises `IntegrityError`, with `advice`, if the result cannot be read.
    """
    try:
        return read_again_on_failure(read_records, RESULT if in_result else SOURCE)
    except RescaleError as error:
        if in_result and isinstance(error, SnapshotError):
            raise unreadable_result_error(error, label, advice) from None
        raise error.located(operator=label) from None


def unreadable_result_error(error: RescaleError, label: str | None = None, advice: str | None = None) -> IntegrityError:
    """Return the error for a part of the result that cannot be read; by default, it names the operator of `error`."""
    what = f"the result cannot be read back: {error.what}"
    return error.recast(IntegrityError, what, operator=label or error.operator, advice=advice)


def tallies_by_side(*tallies: Iterable[OneSidedTally]) -> list[list[str]]:
    """Return the tallies of the source and of the result as text, in an order that does not depend on timing."""
    return [sorted(repr(tally) for tally in chain(*tallies) if tally.in_result is side) for side in (False, True)]
