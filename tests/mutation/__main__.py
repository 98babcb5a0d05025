"""Mutants of the code, and which of them no test finds: `PYTHONPATH=tests python -m mutation FILE_OR_FOLDER …`.

In each one small thing is different: a comparison, a number, a statement that is not there. What survives gets a test,
or stands in `accepted.py` with a reason. `table.py` says which tests are tried on what.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from mutation.accepted import reason
from mutation.mutants import Mutant, mutants
from mutation.table import ROOT, tests_of
from mutation.trial import Outcome, Trial
from support.examples import ALL
from support.records import append_record

COUNTED = ("mutants", "found by tests", "accepted with a reason", "survived")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE_OR_FOLDER")
    parser.add_argument("--sample", type=int, metavar="N", help="try N of the mutants of each file, at most")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="which N")
    parser.add_argument("--function", metavar="NAME", help="those of one function alone, `Class.method`")
    parser.add_argument(
        "--histories", type=int, default=20, metavar="N", help="play N histories of each that tests miss"
    )
    parser.add_argument("--verbose", action="store_true", help="tell of those that are found, too")
    parser.add_argument("--record", action="store_true", help="leave a record of this run in tests/record")
    arguments = parser.parse_args()
    total: Counter[str] = Counter()
    for tests, files in _by_tests(arguments.paths).items():
        made = [
            mutant for file in files for mutant in _drawn(file, arguments.function, arguments.sample, arguments.seed)
        ]
        outcomes = _try(
            tests, [mutant for mutant in made if not reason(mutant)], arguments.histories, verbose=arguments.verbose
        )
        for file in files:
            counts = _counts([mutant for mutant in made if mutant.path == file], outcomes)
            total += counts
            print(f"{file.relative_to(ROOT)}: {', '.join(f'{counts[what]} {what}' for what in COUNTED)}", flush=True)
    if arguments.record:
        command = " ".join(["python -m mutation", *sys.argv[1:]])
        append_record("mutation", command, {what: total[what] for what in COUNTED})
    return 1 if total["survived"] else 0


def _by_tests(paths: Sequence[Path]) -> dict[tuple[str, ...], list[Path]]:
    """The files that are tried by the same tests, which are collected once for all of them."""
    by_tests: dict[tuple[str, ...], list[Path]] = {}
    for path in paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            by_tests.setdefault(tests_of(file.resolve()), []).append(file.resolve())
    return by_tests


def _drawn(file: Path, function: str | None, most: int | None, seed: int) -> list[Mutant]:
    made = [mutant for mutant in mutants(file) if function in (None, mutant.function)]
    return made if most is None or most >= len(made) else random.Random(f"{seed} {file.name}").sample(made, most)


def _counts(made: Sequence[Mutant], outcomes: Sequence[Outcome]) -> Counter[str]:
    own = [outcome for outcome in outcomes if outcome.mutant in made]
    survived = sum(not outcome.found_by for outcome in own)
    return Counter(dict(zip(COUNTED, (len(made), len(own) - survived, len(made) - len(own), survived), strict=True)))


class SameExamples:
    """A plugin of pytest: Hypothesis has the same each time, and makes none smaller that finds a mutant."""

    def pytest_collection(self) -> None:
        phases = [Phase.explicit, Phase.generate]
        settings.register_profile("mutation", settings.get_profile(ALL), derandomize=True, phases=phases)
        settings.load_profile("mutation")


def _try(tests: Sequence[str], tried: Sequence[Mutant], histories: int, *, verbose: bool) -> Sequence[Outcome]:
    def say(outcome: Outcome) -> None:
        if outcome.found_by and not verbose:
            return
        how = f"found by {outcome.found_by}" if outcome.found_by else f"SURVIVED {outcome.tried} tests"
        print(f"{outcome.mutant.place}\n    {outcome.mutant.change}\n    {how}", flush=True)

    if not tried:
        return []
    trial = Trial(tried, histories, say)
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            "-qq",
            "--no-header",
            "--disable-warnings",
            "-p",
            "no:cacheprovider",
            f"--basetemp={folder}/tests",
            *tests,
        ]
        code = pytest.main(arguments, [trial, SameExamples()])
    if code != pytest.ExitCode.OK or len(trial.outcomes) != len(tried):
        sys.exit(f"the tests do not run without any mutant: {code!r}")
    return trial.outcomes


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # histories are the same each time
        again = [sys.executable, "-m", "mutation", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
