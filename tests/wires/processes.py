"""Processes of `rescale` with another environment: new ones, or forks of one that has imported everything.

A fork takes a tenth of the time; its steps run in the same process, and its requests are the same. All processes write
streams in parts of 25 KB, with several tasks for each stream, and put no state into `_metadata` that could be a
file. Their pauses are short, because a disturbed run would otherwise wait half of its time.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from unittest.mock import patch

from support import warm

_SECONDS = 900

HOOK = """
import time
from rescale.execution.rekeying import write_ranges
from rescale.planning import planner
from rescale.planning.streams import inline
from rescale.storage.contract import PartLimits
from rescale.storage.s3.s3_store import S3Store
planner.PART_SIZE = write_ranges.RANGE_SIZE = 25_000
inline.INLINE_LIMIT = 0
S3Store.part_limits = PartLimits(smallest_part_bytes=1, most_parts=10_000)
time.sleep = lambda seconds, pause=time.sleep: pause(seconds / 50)
"""
"""Code that a process runs when it starts."""

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload([__name__, "support.warmed_up"])


class ProcessOutput(NamedTuple):
    """Exit code and output of a process."""

    code: int
    stdout: str
    stderr: str


Rescale = Callable[[Sequence[str], Mapping[str, str]], ProcessOutput]


def run_in_process(arguments: Sequence[str], environment: Mapping[str, str]) -> ProcessOutput:
    """Run the command as users do."""
    with TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text(HOOK)
        paths = os.pathsep.join((folder, *filter(None, sys.path)))
        done = subprocess.run(
            [sys.executable, "-m", "rescale.cli.main", *arguments],
            env={**os.environ, **environment, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    return ProcessOutput(done.returncode, done.stdout, done.stderr)


def run_in_fork(arguments: Sequence[str], environment: Mapping[str, str]) -> ProcessOutput:
    with TemporaryDirectory() as folder:
        process = _forks.Process(target=_run, args=(list(arguments), {**os.environ, **environment}, folder))
        with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):  # the fork server finds its imports there
            process.start()
        process.join(_SECONDS)
        code = process.exitcode
        process.close()
        assert code is not None
        return ProcessOutput(code, *(Path(folder, name).read_text() for name in ("stdout", "stderr")))


def _run(arguments: list[str], environment: dict[str, str], folder: str) -> None:
    os.environ.update(environment)
    for number, name in enumerate(("stdout", "stderr"), 1):
        with Path(folder, name).open("w") as file:
            os.dup2(file.fileno(), number)
    exec(HOOK)
    from rescale.cli.main import main

    with (
        patch("rescale.cli.command_steps.run_step", warm.run_steps),
        patch("rescale.cli.command_steps.LastingProcess", warm.InThisProcess),
    ):
        sys.exit(main(arguments))
