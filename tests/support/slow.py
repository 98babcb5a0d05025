"""Slow test cases, which run only with `-m slow`: further samples of behaviour that quick cases cover.

A few slow cases cover what no quick case does. They are also marked as `gate`, and `.ci/run` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

T = TypeVar("T")
U = TypeVar("U")


def slow(*values: object, id: str | None = None) -> ParameterSet:  # noqa: A002
    """Return a slow case for `parametrize`."""
    return pytest.param(*values, id=id, marks=pytest.mark.slow)


def gate(*values: object, id: str | None = None) -> ParameterSet:  # noqa: A002
    """Return a slow case for `parametrize` that the gate also runs."""
    return pytest.param(*values, id=id, marks=[pytest.mark.slow, pytest.mark.gate])


def slow_but(quick: Callable[[T], bool], cases: Iterable[T]) -> list[ParameterSet]:
    """Return cases for `parametrize`: those that are not `quick` are slow. Fails without a quick case."""
    listed = list(cases)
    assert any(map(quick, listed)), "no quick case"
    return [pytest.param(case) if quick(case) else slow(case) for case in listed]


def lines_in_turn(
    quick: Callable[[T], bool], cases: Iterable[T], in_gate: Callable[[T], bool] = lambda _: False
) -> list[ParameterSet]:
    """Return pairs (fixture of a release line, case) for `parametrize`.

    Quick cases run on the newest line, and as slow cases of the gate also on the older line. All other cases alternate
    between the lines, because each of their values occurs in several cases. Cases that are `in_gate` cover what no
    quick case covers.
    """
    pairs: list[ParameterSet] = []
    turns = cycle(("flink_1_20", "flink_2"))
    for case in cases:
        if quick(case):
            pairs += [gate("flink_1_20", case), pytest.param("flink_2", case)]
        else:
            pairs.append((gate if in_gate(case) else slow)(next(turns), case))
    return pairs


def pairs_in_turn(cases: Iterable[T], others: Sequence[U], quick: int = 2) -> list[ParameterSet]:
    """Return all pairs (case, other) for `parametrize`; in each case, `quick` of the `others` are quick, in turn."""
    pairs = []
    for number, case in enumerate(cases):
        turn = {(number * quick + i) % len(others) for i in range(quick)}
        pairs += [pytest.param(case, other) if i in turn else slow(case, other) for i, other in enumerate(others)]
    return pairs


Share = Callable[[Iterable[T]], Sequence[T]]

_PERIOD = 32
_SLOW_PLACES = (0, 8, 12, 24, 28)


def _is_quick(number: int, count: int) -> bool:
    return number % _PERIOD == min(_PERIOD // 2, count - 1)


def _some(places: Iterable[T]) -> Sequence[T]:
    listed = list(places)
    return [place for number, place in enumerate(listed) if _is_quick(number, len(listed))]


def _more(places: Iterable[T]) -> Sequence[T]:
    listed = list(places)
    return [
        place
        for number, place in enumerate(listed)
        if number % _PERIOD in _SLOW_PLACES and not _is_quick(number, len(listed))
    ]


in_shares = pytest.mark.parametrize("share", [pytest.param(_some, id="some"), slow(_more, id="more")])
"""Parameter for tests that could kill runs at very many places: a function `share` that picks some of the places. The
quick case picks one of 32, and the slow case five others of 32. The histories of `simulation` kill runs at random
places, at a hundredth of the cost."""
