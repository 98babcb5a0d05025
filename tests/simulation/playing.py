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

CHUNK_HISTORIES = 25
"""Number of histories that a worker plays between reports."""


@dataclass
class Tally:
    """Number of histories by outcome, of faults by kind, seeds that broke a promise, and the logs to print."""

    outcomes: Counter[str] = field(default_factory=Counter)
    event_counts: Counter[str] = field(default_factory=Counter)
    broken_seeds: list[int] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.outcomes += other.outcomes
        self.event_counts += other.event_counts
        self.broken_seeds += other.broken_seeds


def side_by_side(work: Callable[[T], R], items: Sequence[T], workers: int) -> Iterator[R]:
    """Yield `work(item)` for each item in order, with the bucket installed; a single worker is this process."""
    usual_thresholds = gc.get_threshold()
    with installed():
        gc.freeze()  # imported modules stay: collections need not search them
        gc.set_threshold(_COLLECTION_THRESHOLD, *usual_thresholds[1:])
        try:
            if workers == 1:
                yield from map(work, items)
                return
            fork_context = multiprocessing.get_context("fork")
            with ProcessPoolExecutor(workers, fork_context, initializer=take_own_scratch) as pool:
                yield from pool.map(work, items)
        finally:
            gc.set_threshold(*usual_thresholds)
            gc.unfreeze()


def chunks(seeds: Sequence[int]) -> list[Sequence[int]]:
    return [seeds[at : at + CHUNK_HISTORIES] for at in range(0, len(seeds), CHUNK_HISTORIES)]


def play_all(seeds: Sequence[int], *, verbose: bool = False) -> Tally:
    """Play histories; report those that broke a promise, or all with `verbose`. Call it within `with installed():`."""
    tally = Tally()
    for seed in seeds:
        verdict = play(seed)
        tally.outcomes[verdict.outcome] += 1
        tally.event_counts += verdict.event_counts
        if verdict.broken_promise is not None:
            tally.broken_seeds.append(seed)
        if verdict.broken_promise is not None or verbose:
            tally.reports.append(_report(verdict))
    return tally


def _report(verdict: Verdict) -> str:
    return "\n    ".join([f"seed {verdict.seed}: {verdict.broken_promise or verdict.outcome}", *verdict.log])
