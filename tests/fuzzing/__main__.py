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

from fuzzing.corpus import inputs_worth_keeping, kept_inputs, replace_kept_inputs
from fuzzing.limits import CPU_SECONDS_LIMIT, MEMORY_BYTES_LIMIT, limited_memory, limited_time
from fuzzing.outcomes import different_outcomes
from fuzzing.subject import try_out
from fuzzing.table import SUBJECT_NAMES, subject_of

_LONGEST_INPUT_BYTES = 16 * 1024
_MOST_INPUTS_TRIED_TWICE = 500
_CLOCK_FACTOR = 12
"""Seconds of wall-clock time that an input may take for each second of its CPU time limit."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzzing", description=__doc__)
    parser.add_argument("target", choices=[*SUBJECT_NAMES, "all"])
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
    work_folder = arguments.work or Path(tempfile.mkdtemp(prefix="rescale-fuzzing-"))
    names = list(SUBJECT_NAMES) if arguments.target == "all" else [arguments.target]
    outcomes = [
        _fuzz(name, arguments.seconds, work_folder, keeps=arguments.keep, twice=arguments.twice) for name in names
    ]
    return int(any(outcome.failed for outcome in outcomes))


class Outcome(NamedTuple):
    """Outcome of fuzzing one target."""

    input_count: int
    cpu_seconds: float
    failed: bool


def _fuzz(name: str, seconds: int, work_folder: Path, *, keeps: bool, twice: bool) -> Outcome:
    """Run one target, print a line with its outcome, and return the outcome."""
    subject = subject_of(name)
    seeds_folder, inputs_folder = work_folder / f"{name}-seeds", work_folder / name
    for folder in (seeds_folder, inputs_folder):
        folder.mkdir(parents=True, exist_ok=True)
    for i, data in enumerate([*subject.seeds(), *kept_inputs(name)]):
        (seeds_folder / f"{i:05}").write_bytes(data)
    cpu_seconds_before = _cpu_seconds()
    options = [
        f"-max_total_time={seconds}",
        f"-timeout={_CLOCK_FACTOR * CPU_SECONDS_LIMIT}",
        f"-max_len={_LONGEST_INPUT_BYTES}",
        "-print_final_stats=1",
    ]
    log = work_folder / f"{name}.log"
    with log.open("w") as out:
        exit_code = subprocess.call(
            [
                *(sys.executable, "-m", "fuzzing.driver", name, *options),
                *(f"-artifact_prefix={work_folder}/{name}-failed-", f"-rss_limit_mb={2 * MEMORY_BYTES_LIMIT >> 20}"),
                *(str(inputs_folder), str(seeds_folder)),  # the fuzzer writes new inputs to the first folder
            ],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "NUMBA_DISABLE_JIT": str(int(not subject.compiled))},
        )
    log_text = log.read_text(errors="replace")
    input_counts = re.findall(r"stat::number_of_executed_units:\s+(\d+)", log_text) or re.findall(
        r"^#(\d+)", log_text, re.MULTILINE
    )
    coverage_counts = re.findall(r"cov: (\d+)", log_text)
    outcome = Outcome(int(input_counts[-1]) if input_counts else 0, _cpu_seconds() - cpu_seconds_before, exit_code != 0)
    print(
        f"{name}: {outcome.cpu_seconds:.0f} s of CPU time in {seconds} s, {outcome.input_count} inputs, "
        f"{coverage_counts[-1] if coverage_counts else 0} places covered, "
        f"{'FAILED: ' + str(log) if exit_code else 'no failure'}",
        flush=True,
    )
    if twice and not exit_code and not subject.compiled:
        differences = _different_outcomes(name, inputs_folder)
        outcome = outcome._replace(failed=bool(differences), cpu_seconds=_cpu_seconds() - cpu_seconds_before)
        print(f"{name}: in machine code", *differences or ["all inputs end alike"], sep="\n  ", flush=True)
    if keeps:
        valid_length = min(len(data) for data in subject.seeds())
        replace_kept_inputs(
            name,
            [
                *kept_inputs(name),
                *inputs_worth_keeping((path.read_bytes() for path in inputs_folder.iterdir()), valid_length),
            ],
        )
    return outcome


def _different_outcomes(name: str, inputs_folder: Path) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(inputs_folder.iterdir())[
            :_MOST_INPUTS_TRIED_TWICE
        ]:  # a random choice: files are named by their digests
            shutil.copy(path, folder)
        return different_outcomes(name, Path(folder))


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
