"""Fuzzing guided by coverage: `PYTHONPATH=tests python -m fuzzing TARGET --seconds N`, or `all` for every target.

The fuzzer is atheris (`uv sync --group fuzzing`). Each target runs in its own process, which starts with the seeds and
the kept inputs, until the seconds are over or an input fails. A failing input is written to a file, and `--again FILE`
tries this file again. `--keep` adds some small inputs that covered new code to the kept inputs.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from fuzzing.corpus import keep, kept_inputs, worth_keeping
from fuzzing.limits import MEMORY_BYTES, SECONDS, limited_memory, limited_time
from fuzzing.outcomes import different_outcomes
from fuzzing.subject import try_out
from fuzzing.table import NAMES, subject_of

_LONGEST_INPUT = 16 * 1024
_MOST_TRIED_TWICE = 500
_CLOCK_FACTOR = 12
"""Seconds of wall-clock time that an input may take for each second of its CPU time limit."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzzing", description=__doc__)
    parser.add_argument("target", choices=[*NAMES, "all"])
    parser.add_argument("--seconds", type=int, default=60, metavar="N", help="how long each target runs")
    parser.add_argument("--work", type=Path, metavar="DIR", help="folder for inputs that covered new code")
    parser.add_argument("--again", type=Path, metavar="FILE", help="try only this input, and print its outcome")
    parser.add_argument("--keep", action="store_true", help="keep some of the new inputs beside the tests")
    parser.add_argument("--twice", action="store_true", help="also try some of the new inputs in machine code")
    arguments = parser.parse_args()
    if arguments.again:
        with limited_memory(), limited_time():
            print(try_out(subject_of(arguments.target), arguments.again.read_bytes()) or "accepted")
        return 0
    work = arguments.work or Path(tempfile.mkdtemp(prefix="rescale-fuzzing-"))
    names = list(NAMES) if arguments.target == "all" else [arguments.target]
    outcomes = [_fuzz(name, arguments.seconds, work, keeps=arguments.keep, twice=arguments.twice) for name in names]
    return int(any(outcome.failed for outcome in outcomes))


class Outcome(NamedTuple):
    """Outcome of fuzzing one target."""

    inputs: int
    cpu_seconds: float
    failed: bool


def _fuzz(name: str, seconds: int, work: Path, *, keeps: bool, twice: bool) -> Outcome:
    """Run one target, print a line with its outcome, and return the outcome."""
    subject = subject_of(name)
    seeds, inputs = work / f"{name}-seeds", work / name
    for folder in (seeds, inputs):
        folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate([*subject.seeds(), *kept_inputs(name)]):
        (seeds / f"{number:05}").write_bytes(data)
    begun = _cpu_seconds()
    options = [
        f"-max_total_time={seconds}",
        f"-timeout={_CLOCK_FACTOR * SECONDS}",
        f"-max_len={_LONGEST_INPUT}",
        "-print_final_stats=1",
    ]
    log = work / f"{name}.log"
    with log.open("w") as out:
        code = subprocess.call(
            [
                *(sys.executable, "-m", "fuzzing.driver", name, *options),
                *(f"-artifact_prefix={work}/{name}-failed-", f"-rss_limit_mb={2 * MEMORY_BYTES >> 20}"),
                *(str(inputs), str(seeds)),  # the fuzzer writes new inputs to the first folder
            ],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "NUMBA_DISABLE_JIT": str(int(not subject.compiled))},
        )
    text = log.read_text(errors="replace")
    tried = re.findall(r"stat::number_of_executed_units:\s+(\d+)", text) or re.findall(r"^#(\d+)", text, re.MULTILINE)
    covered = re.findall(r"cov: (\d+)", text)
    outcome = Outcome(int(tried[-1]) if tried else 0, _cpu_seconds() - begun, code != 0)
    print(
        f"{name}: {outcome.cpu_seconds:.0f} s of CPU time in {seconds} s, {outcome.inputs} inputs, "
        f"{covered[-1] if covered else 0} places covered, {'FAILED: ' + str(log) if code else 'no failure'}",
        flush=True,
    )
    if twice and not code and not subject.compiled:
        different = _different_outcomes(name, inputs)
        outcome = outcome._replace(failed=bool(different), cpu_seconds=_cpu_seconds() - begun)
        print(f"{name}: in machine code", *different or ["all inputs end alike"], sep="\n  ", flush=True)
    if keeps:
        least = min(len(data) for data in subject.seeds())
        keep(name, [*kept_inputs(name), *worth_keeping((path.read_bytes() for path in inputs.iterdir()), least)])
    return outcome


def _different_outcomes(name: str, inputs: Path) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(inputs.iterdir())[:_MOST_TRIED_TWICE]:  # a random choice: files are named by their digests
            shutil.copy(path, folder)
        return different_outcomes(name, Path(folder))


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
