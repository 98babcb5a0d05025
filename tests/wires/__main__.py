"""Whole runs over a wire on which things go wrong: `PYTHONPATH=tests:benchmarks python -m wires --runs N --rate R`.

The same seed has the same mishaps happen to the same requests.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from support.records import append_record
from wires.processes import in_a_fork, in_a_process
from wires.rescaling import home_of_wires


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m wires", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="how many runs are played")
    parser.add_argument("--first", type=int, default=0, metavar="S", help="the seed of the first one")
    parser.add_argument("--rate", type=float, default=0.15, metavar="R", help="of requests something happens to")
    parser.add_argument(
        "--stall", type=float, default=2, metavar="SECONDS", help="how long an answer may take; boto3 waits for 60"
    )
    parser.add_argument(
        "--at-once", type=int, default=1, metavar="N", help="runs side by side: much of them is waiting"
    )
    parser.add_argument("--forks", action="store_true", help="run forks of one process, which cost a tenth")
    parser.add_argument("--record", action="store_true", help="leave a record of this run in tests/record")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.runs)
    ways: Counter[str] = Counter()
    happened: Counter[str] = Counter()
    broken, requests, begun = [], 0, time.monotonic()
    rescale = in_a_fork if arguments.forks else in_a_process
    with home_of_wires(rescale) as home, ThreadPoolExecutor(arguments.at_once) as pool:
        runs = pool.map(lambda seed: home.play(seed, arguments.rate, arguments.stall), seeds)
        for seed, told in zip(seeds, runs, strict=True):
            ways[told.how] += 1
            happened += Counter(told.happened)
            requests += told.requests
            broken += [seed] if told.broken is not None else []
            print(f"seed {seed}: {' '.join((told.asking.source, *told.asking.options))}: {told.how}", flush=True)
            if told.broken is not None:
                print(told.broken, flush=True)
    print(f"{len(seeds)} runs in {time.monotonic() - begun:.0f} s, {requests} requests, {happened.total()} mishaps")
    for title, counts in (("how they ended", ways), ("what happened on the way", happened)):
        print(f"{title}:", *(f"{count:>9} {what}" for what, count in counts.most_common()), sep="\n")
    if arguments.record:
        counts = {"runs": len(seeds), "that broke a promise": len(broken), "requests": requests}
        counts["mishaps"] = happened.total()
        append_record("wires", " ".join(["python -m wires", *sys.argv[1:]]), counts)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
