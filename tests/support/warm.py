"""`rescale` in processes that cost next to nothing to start: forks of one that has imported everything.

The steps run inside that process, without Spark: what is left is the order of storage calls, which is what the sweeps
over every single call are about.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from move_and_validate import steps_of_a_run
from rescale.cli.main import main
from rescale.execution.loop import Loop
from rescale.execution.tasks import Tasks
from rescale.planning.values.proof import Proof
from rescale.process import STEPS_OF_A_RUN, Step
from rescale.target.documents import load_plan
from support.faults import Faults, install

PART_SIZE = 1500
"""So small that streams of a few KB are moved in parts (local files only: S3 wants 5 MiB)."""

RANGE_SIZE = 37
"""So small that several tasks write a stream of a few dozen bytes, wherever it lies."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__, "support.warmed_up"])


def rescale(words: Sequence[str], faults: Faults, part_size: int = PART_SIZE) -> int:
    """Runs `rescale` with `words` in a process and session of its own; its exit code, negative for a signal."""
    process = _context.Process(target=_run, args=(list(words), faults, part_size, dict(os.environ)))
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):  # where the first one finds what it imports
        process.start()
    process.join()
    code = process.exitcode
    process.close()
    assert code is not None
    return code


def _run(words: list[str], faults: Faults, part_size: int, environment: dict[str, str]) -> None:
    os.setsid()
    os.environ.clear()  # of what there was when the first one began
    os.environ.update(environment)
    with open(f"{faults.log}.out", "a") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    install(faults)
    with (
        patch("rescale.planning.planner.PART_SIZE", part_size),
        patch("rescale.execution.rekeying.write_ranges.RANGE_SIZE", RANGE_SIZE),
        patch("rescale.planning.streams.inline.INLINE_LIMIT", 0),
        patch("rescale.storage.side_by_side.AT_ONCE", 1),  # always in the same order
        patch("rescale.cli.own_step.run_step", run_steps),
    ):
        sys.exit(main(words))


def run_steps(step: Step, _: str, arguments: Sequence[str], *__: object, **___: object) -> dict[str, Any]:
    """In place of `process.run_step`."""
    assert step is Step.RUN
    for one in STEPS_OF_A_RUN:
        step_without_spark(one, arguments, Loop())
    return {}


def step_without_spark(step: Step, arguments: Sequence[str], tasks: Tasks) -> dict[str, Any]:
    """What the main of a step does with these arguments."""
    proof = Proof(arguments[arguments.index("--proof") + 1]) if "--proof" in arguments else Proof.RECORDS
    plan = load_plan(arguments[arguments.index("--plan") + 1])
    document: dict[str, Any] = steps_of_a_run(proof)[step](plan, tasks)
    return document


def output(faults: Faults) -> str:
    """What the process said."""
    return Path(f"{faults.log}.out").read_text()
