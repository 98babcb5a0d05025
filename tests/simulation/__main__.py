"""Plays histories, or hunts planted bugs: `PYTHONPATH=tests python -m simulation --seeds N`.

The same seed gives the same history. The order of a set of texts depends on Python's hash seed, so this module starts
itself again with a fixed hash seed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from functools import partial

from simulation.playing import Tally, chunks, play_all, side_by_side
from simulation.script import has_native_state


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, metavar="N", help="how many histories are played")
    parser.add_argument("--first", type=int, default=0, metavar="S", help="the seed of the first history")
    parser.add_argument("--workers", type=int, default=1, metavar="W", help="how many processes play them")
    parser.add_argument("--bugs", action="store_true", help="plant bugs, and print the check that finds each")
    parser.add_argument("--native", action="store_true", help="play only histories with native state")
    parser.add_argument("--verbose", action="store_true", help="print all histories, not only broken ones")
    arguments = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        command = [sys.executable, "-m", "simulation", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})
    seeds: Sequence[int] = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.native:
        seeds = [*filter(has_native_state, seeds)]
    if arguments.bugs:
        return _hunt(seeds, arguments.workers)
    return _play(seeds, arguments.workers, verbose=arguments.verbose)


def _play(seeds: Sequence[int], workers: int, *, verbose: bool) -> int:
    """Play histories, print how they ended, and return the exit code."""
    cpu_seconds_before, clock_seconds_before = _processor_seconds(), time.monotonic()
    total = Tally()
    for tally in side_by_side(partial(play_all, verbose=verbose), chunks(seeds), workers):
        total.add(tally)
        print(*tally.reports, sep="\n", end="\n" if tally.reports else "", flush=True)
    cpu_seconds, clock_seconds = _processor_seconds() - cpu_seconds_before, time.monotonic() - clock_seconds_before
    print(
        f"{len(seeds)} histories in {cpu_seconds:.1f} s of CPU time, {len(seeds) / cpu_seconds:.1f} a second; "
        f"it took {clock_seconds:.0f} s"
    )
    for title, counts in (("how they ended", total.outcomes), ("what went wrong on the way", total.event_counts)):
        print(f"{title}:", *(f"{count:>9} {what}" for what, count in counts.most_common()), sep="\n")
    if total.broken_seeds:
        print(
            f"{len(total.broken_seeds)} broke a promise; "
            f"again: python -m simulation --seeds 1 --first {total.broken_seeds[0]}"
        )
    return 1 if total.broken_seeds else 0


def _processor_seconds() -> float:
    """Return the processor time of this process and of its workers that have ended."""
    return sum(os.times()[:4])


def _hunt(seeds: Sequence[int], workers: int) -> int:
    """Plant bugs, print for each how it was found, and return the exit code."""
    from simulation.bugs.table import BUGS, COVERED_ELSEWHERE, hunt_by_name

    missed_bugs = []
    names = [bug.name for bug in BUGS]
    for name, catch in zip(names, side_by_side(partial(hunt_by_name, seeds), names, workers), strict=True):
        if name in COVERED_ELSEWHERE:
            print(f"{name}\n    no history: {COVERED_ELSEWHERE[name]}", flush=True)
        elif catch is None:
            missed_bugs.append(name)
            print(f"{name}\n    NOT FOUND in {len(seeds)} histories", flush=True)
        else:
            message = catch.broken_promise.replace("\n", " ")[:160]
            print(f"{name}\n    seed {catch.seed}, history {catch.histories_played}: {message}", flush=True)
    print(f"{len(BUGS)} bugs planted; {len(COVERED_ELSEWHERE)} are left to other checks; not found: {missed_bugs or 0}")
    return 1 if missed_bugs else 0


if __name__ == "__main__":
    sys.exit(main())
