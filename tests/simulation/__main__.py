"""Histories by the thousand, or planted bugs one at a time: `PYTHONPATH=tests python -m simulation --seeds N`.

The same seed gives the same history. Sets of text have another order in every process unless Python is told
otherwise, so this starts itself again if it was not.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence

from simulation.history import play
from simulation.installed import installed
from simulation.script import has_native_state
from support.records import PAGE, append_record, page_with, table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, metavar="N", help="how many histories are played")
    parser.add_argument("--first", type=int, default=0, metavar="S", help="the seed of the first one")
    parser.add_argument("--bugs", action="store_true", help="plant bugs, and say which check finds each in N histories")
    parser.add_argument("--native", action="store_true", help="of these, only histories of native state")
    parser.add_argument("--record", action="store_true", help="leave a record of this run in tests/record")
    parser.add_argument("--table", action="store_true", help="make the table in tests/README.md of all records")
    parser.add_argument("--verbose", action="store_true", help="tell every history, not only one that went wrong")
    arguments = parser.parse_args()
    if arguments.table:
        PAGE.write_text(page_with(table(), PAGE.read_text()))
        return 0
    if os.environ.get("PYTHONHASHSEED") != "0":
        again = [sys.executable, "-m", "simulation", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})
    seeds: Sequence[int] = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.native:
        seeds = [*filter(has_native_state, seeds)]
    code, sort, counts = _hunt(seeds) if arguments.bugs else _play(seeds, verbose=arguments.verbose)
    if arguments.record:
        append_record(sort, " ".join(["python -m simulation", *sys.argv[1:]]), counts)
    return code


def _play(seeds: Sequence[int], *, verbose: bool) -> tuple[int, str, dict[str, int]]:
    """Exit code, and what is recorded."""
    begun = time.process_time()
    ways: Counter[str] = Counter()
    injected: Counter[str] = Counter()
    broken = []
    with installed():
        for seed in seeds:
            verdict = play(seed)
            ways[verdict.how] += 1
            injected += verdict.injected
            if verdict.broken is not None:
                broken.append(seed)
            if verdict.broken is not None or verbose:
                print(f"seed {seed}: {verdict.broken or verdict.how}", *verdict.log, sep="\n    ", flush=True)
    print(f"{len(seeds)} histories in {time.process_time() - begun:.1f} s of CPU time")
    for title, counts in (("how they ended", ways), ("what went wrong on the way", injected)):
        print(f"{title}:", *(f"{count:>9} {what}" for what, count in counts.most_common()), sep="\n")
    if broken:
        print(f"{len(broken)} broke a promise; again: python -m simulation --seeds 1 --first {broken[0]}")
    ended = {
        how: sum(count for what, count in ways.items() if what.startswith(how)) for how in ("published", "refused")
    }
    counts = {"histories": len(seeds), "of native state": sum(map(has_native_state, seeds)), **ended}
    counts |= {"that broke a promise": len(broken), "faults injected": sum(injected.values())}
    return 1 if broken else 0, "histories", counts


def _hunt(seeds: Sequence[int]) -> tuple[int, str, dict[str, int]]:
    """A line for every bug; exit code, and what is recorded."""
    from simulation.bugs.table import BUGS, INSTEAD, hunt

    missed = []
    with installed():
        for bug in BUGS:
            if bug.name in INSTEAD:
                print(f"{bug.name}\n    no history: {INSTEAD[bug.name]}", flush=True)
                continue
            found = hunt(bug, seeds)
            if found is None:
                missed.append(bug.name)
                print(f"{bug.name}\n    NOT FOUND in {len(seeds)} histories", flush=True)
                continue
            said = found.broken.replace("\n", " ")[:160]
            print(f"{bug.name}\n    seed {found.seed}, history {found.played}: {said}", flush=True)
    print(f"{len(BUGS)} bugs planted; {len(INSTEAD)} stand behind other checks; not found: {missed or 0}")
    found_by = len(BUGS) - len(INSTEAD) - len(missed)
    counts = {"planted": len(BUGS), "found by histories": found_by, "found by other checks": len(INSTEAD)}
    return 1 if missed else 0, "bugs", {**counts, "not found": len(missed)}


if __name__ == "__main__":
    sys.exit(main())
