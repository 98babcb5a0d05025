"""What runs only with `-m slow`: further cases of what others show, which always run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
