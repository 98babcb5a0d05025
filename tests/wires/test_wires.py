"""Whole runs through a proxy that disturbs requests: a few of the runs that `python -m wires` plays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from wires.mishaps import Mishap
from wires.processes import run_in_fork, run_in_process
from wires.rescaling import Home, wires_home

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with wires_home(run_in_fork) as opened:
        yield opened


@pytest.mark.parametrize(("rate", "seeds"), [(0.05, range(4)), (0.15, range(100, 106))])
def test_disturbed_run_publishes_or_can_be_repeated(rate: float, seeds: range, home: Home) -> None:
    happened: Counter[Mishap] = Counter()
    for seed in seeds:
        outcome = home.play(seed, rate, stall=0.2)
        assert outcome.broken is None, f"seed {seed}: {outcome.broken}"
        happened += Counter(outcome.happened)
    assert len(happened) > len(Mishap) // 2


def test_disturbed_run_in_processes_of_its_own_publishes_or_can_be_repeated() -> None:
    with wires_home(run_in_process) as opened:
        outcome = opened.play(3, 0.15, stall=0.2)
    assert outcome.broken is None
    assert outcome.happened
