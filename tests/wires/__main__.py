"""Whole runs through a proxy that disturbs requests: `PYTHONPATH=tests:benchmarks python -m wires --runs N --rate R`.

With the same seed, the same mishaps happen to the same requests.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from wires.processes import run_in_fork, run_in_process
from wires.rescaling import Outcome, wires_home


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m wires", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="how many runs are played")
    parser.add_argument("--first", type=int, default=0, metavar="S", help="the seed of the first run")
    parser.add_argument("--rate", type=float, default=0.15, metavar="R", help="share of requests that are disturbed")
    parser.add_argument(
        "--stall", type=float, default=0.2, metavar="SECONDS", help="length of a stall; boto3 waits for 60"
    )
    parser.add_argument(
        "--at-once", type=int, default=1, metavar="N", help="runs side by side, which wait most of the time"
    )
    parser.add_argument("--minutes", type=float, default=1e9, metavar="M", help="begin no run after M minutes")
    parser.add_argument("--forks", action="store_true", help="run forks of one process, in a tenth of the time")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.runs)
    endings: Counter[str] = Counter()
    happened: Counter[str] = Counter()
    broken_seeds, played, requests, copies, begun = [], 0, 0, 0, time.monotonic()
    rescale = run_in_fork if arguments.forks else run_in_process
    with wires_home(rescale) as home, ThreadPoolExecutor(arguments.at_once) as pool:

        def play(seed: int) -> Outcome | None:
            late = time.monotonic() - begun > arguments.minutes * 60
            return None if late else home.play(seed, arguments.rate, arguments.stall)

        for seed, outcome in zip(seeds, pool.map(play, seeds), strict=True):
            if outcome is None:
                continue
            played += 1
            endings[outcome.ending] += 1
            happened += Counter(outcome.happened)
            requests += outcome.requests
            copies += outcome.copies
            broken_seeds += [seed] if outcome.broken is not None else []
            print(
                f"seed {seed}: {' '.join((outcome.request.source, *outcome.request.options))}: {outcome.ending}",
                flush=True,
            )
            if outcome.broken is not None:
                print(outcome.broken, flush=True)
    print(f"{played} runs in {time.monotonic() - begun:.0f} s, {requests} requests")
    print(f"{happened.total()} mishaps, {copies} of them of requests that copy an object")
    for title, counts in (("ends of the runs", endings), ("mishaps", happened)):
        print(f"{title}:", *(f"{count:>9} {what}" for what, count in counts.most_common()), sep="\n")
    return 1 if broken_seeds else 0


if __name__ == "__main__":
    sys.exit(main())
