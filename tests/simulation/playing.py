"""Many histories, or bugs, in workers that are forked once and stay: each is warm after its first ones."""

from __future__ import annotations

import gc
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from simulation.history import Verdict, play
from simulation.installed import installed, take_own_scratch

T = TypeVar("T")
R = TypeVar("R")

_SELDOM = 20_000
"""Objects that are made until cycles are looked for: what is remembered would be looked at again each time."""

CHUNK = 25
"""Histories that a worker plays before it says what came of them."""


@dataclass
class Tally:
    """Outcome of histories; `reported` are those that are described at length."""

    ways: Counter[str] = field(default_factory=Counter)
    injected: Counter[str] = field(default_factory=Counter)
    broken: list[int] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.ways += other.ways
        self.injected += other.injected
        self.broken += other.broken


def side_by_side(work: Callable[[T], R], items: Sequence[T], workers: int) -> Iterator[R]:
    """`work(item)` for each, in a block of `installed`, in their order; one worker is this process itself."""
    usual = gc.get_threshold()
    with installed():
        gc.freeze()  # what is imported stays: it need not be looked at again by whoever looks for cycles
        gc.set_threshold(_SELDOM, *usual[1:])
        try:
            if workers == 1:
                yield from map(work, items)
                return
            fork = multiprocessing.get_context("fork")
            with ProcessPoolExecutor(workers, fork, initializer=take_own_scratch) as pool:
                yield from pool.map(work, items)
        finally:
            gc.set_threshold(*usual)
            gc.unfreeze()


def chunks(seeds: Sequence[int]) -> list[Sequence[int]]:
    return [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]


def play_all(seeds: Sequence[int], *, verbose: bool = False) -> Tally:
    """In a block of `installed`; histories that broke a promise are reported, or all with `verbose`."""
    tally = Tally()
    for seed in seeds:
        verdict = play(seed)
        tally.ways[verdict.how] += 1
        tally.injected += verdict.injected
        if verdict.broken is not None:
            tally.broken.append(seed)
        if verdict.broken is not None or verbose:
            tally.reported.append(_described(verdict))
    return tally


def _described(verdict: Verdict) -> str:
    return "\n    ".join([f"seed {verdict.seed}: {verdict.broken or verdict.how}", *verdict.log])
