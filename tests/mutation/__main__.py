"""Mutants of the code, and which of them no test finds: `PYTHONPATH=tests python -m mutation FILE_OR_FOLDER …`.

In each one small thing is different: a comparison, a number, a statement that is not there. What survives gets a test,
or stands in `accepted.py` with a reason. `table.py` says which tests are tried on what.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mutation.accepted import reason
from mutation.mutants import Mutant, mutants
from mutation.table import ROOT, tests_of
from mutation.trial import Outcome, Trial
from support.records import append_record


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE_OR_FOLDER")
    parser.add_argument("--sample", type=int, metavar="N", help="try N of the mutants of each file, at most")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="which N")
    parser.add_argument("--function", metavar="NAME", help="those of one function alone, `Class.method`")
    parser.add_argument(
        "--histories", type=int, default=40, metavar="N", help="play N histories of each that tests miss"
    )
    parser.add_argument("--verbose", action="store_true", help="tell of those that are found, too")
    parser.add_argument("--record", action="store_true", help="leave a record of this run in tests/record")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter(mutants=0, **{"found by tests": 0, "accepted with a reason": 0, "survived": 0})
    for file in _files(arguments.paths):
        made = [one for one in mutants(file) if arguments.function in (None, one.function)]
        if arguments.sample is not None and arguments.sample < len(made):
            made = random.Random(f"{arguments.seed} {file.name}").sample(made, arguments.sample)
        accepted = [one for one in made if reason(one)]
        tried = [one for one in made if not reason(one)]
        begun = time.perf_counter()
        outcomes = _try(file, tried, arguments.histories, verbose=arguments.verbose) if tried else []
        survived = sum(not outcome.found_by for outcome in outcomes)
        counts += Counter(mutants=len(made), **{"found by tests": len(tried) - survived})
        counts += Counter({"accepted with a reason": len(accepted), "survived": survived})
        told = f"{len(made)} mutants, {len(tried) - survived} found, {len(accepted)} accepted, {survived} survived"
        print(f"{file.relative_to(ROOT)}: {told}, {time.perf_counter() - begun:.0f} s", flush=True)
    if arguments.record:
        command = " ".join(["python -m mutation", *sys.argv[1:]])
        append_record("mutation", command, {what: counts[what] for what in _COUNTS})
    return 1 if counts["survived"] else 0


_COUNTS = ("mutants", "found by tests", "accepted with a reason", "survived")


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        yield from (one.resolve() for one in (sorted(path.rglob("*.py")) if path.is_dir() else [path]))


def _try(file: Path, tried: Sequence[Mutant], histories: int, *, verbose: bool) -> Sequence[Outcome]:
    """In a process of its own, so that one file's tests leave nothing behind for another's."""

    def say(outcome: Outcome) -> None:
        if outcome.found_by and not verbose:
            return
        how = f"found by {outcome.found_by}" if outcome.found_by else f"SURVIVED {outcome.tried} tests"
        print(f"{outcome.mutant.place}\n    {outcome.mutant.change}\n    {how}", flush=True)

    trial = Trial(tried, histories, say)
    words = ["-qq", "--no-header", "-p", "no:cacheprovider", *tests_of(file)]
    os.chdir(ROOT)
    code = pytest.main(words, [trial])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) or len(trial.outcomes) != len(tried):
        sys.exit(f"{file.name}: the tests do not run without any mutant: {code!r}")
    return trial.outcomes


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # histories are the same each time
        again = [sys.executable, "-m", "mutation", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
