"""Many histories, or hunts for bugs, in workers that are forked once and keep their caches."""

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

_COLLECTION_THRESHOLD = 20_000
"""Allocations between garbage collections, which are slow because they search all cached values."""

CHUNK = 25
"""Number of histories that a worker plays between reports."""


@dataclass
class Tally:
    """Number of histories by outcome, of faults by kind, seeds that broke a promise, and the logs to print."""

    outcomes: Counter[str] = field(default_factory=Counter)
    injected: Counter[str] = field(default_factory=Counter)
    broken: list[int] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.outcomes += other.outcomes
        self.injected += other.injected
        self.broken += other.broken


def side_by_side(work: Callable[[T], R], items: Sequence[T], workers: int) -> Iterator[R]:
    """Yield `work(item)` for each item in order, with the bucket installed; a single worker is this process."""
    usual = gc.get_threshold()
    with installed():
        gc.freeze()  # imported modules stay: collections need not search them
        gc.set_threshold(_COLLECTION_THRESHOLD, *usual[1:])
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
    """Play histories; report those that broke a promise, or all with `verbose`. Call it within `with installed():`."""
    tally = Tally()
    for seed in seeds:
        verdict = play(seed)
        tally.outcomes[verdict.outcome] += 1
        tally.injected += verdict.injected
        if verdict.broken is not None:
            tally.broken.append(seed)
        if verdict.broken is not None or verbose:
            tally.reported.append(_described(verdict))
    return tally


def _described(verdict: Verdict) -> str:
    return "\n    ".join([f"seed {verdict.seed}: {verdict.broken or verdict.outcome}", *verdict.log])
