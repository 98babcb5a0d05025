"""What runs only with `-m slow`: further cases of what others show, which always run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

T = TypeVar("T")


def slow(*values: object, id: str | None = None) -> ParameterSet:  # noqa: A002
    """A slow case for `parametrize`."""
    return pytest.param(*values, id=id, marks=pytest.mark.slow)


def slow_but(quick: Callable[[T], bool], cases: Iterable[T]) -> list[ParameterSet]:
    """The cases for `parametrize`: those that are not `quick` are slow. Some must be, or nothing always runs."""
    listed = list(cases)
    assert any(map(quick, listed)), "no quick case"
    return [pytest.param(case) if quick(case) else slow(case) for case in listed]


Share = Callable[[Iterable[T]], Sequence[T]]

_OF = 8


def _is_quick(number: int, count: int) -> bool:
    return number % _OF == min(_OF // 2, count - 1)


def _some(places: Iterable[T]) -> Sequence[T]:
    listed = list(places)
    return [place for number, place in enumerate(listed) if _is_quick(number, len(listed))]


def _others(places: Iterable[T]) -> Sequence[T]:
    listed = list(places)
    return [place for number, place in enumerate(listed) if not _is_quick(number, len(listed))]


in_shares = pytest.mark.parametrize("share", [pytest.param(_some, id="some"), slow(_others, id="all others")])
"""For a test that goes through very many places: one of eight always, the others where all that is slow runs."""
