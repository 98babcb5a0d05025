"""Runs `rescale` in processes that start fast: forks of a process that has imported all modules.

Steps run in the same process, without Spark. Storage calls come in the order of a real run, because some tests disturb
one call after the other.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Self
from unittest.mock import patch

import msgspec

from move_and_validate import steps_of_a_run
from rescale.cli.main import main
from rescale.execution.preparing import prepare_files
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.execution.tasks.protocol import Tasks
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.process import ResultDocument
from rescale.runstate.documents import load_plan
from rescale.runstate.places import places_of
from rescale.runstate.step import STEPS_OF_A_RUN, Step
from support import disk_waits
from support.faults import Faults, install

PART_SIZE = 1500
"""Size of a part in bytes; small, so that streams of a few KB have several parts (local files only: S3 requires 5
MiB)."""

RANGE_SIZE = 37
"""Size of a range in bytes; small, so that several tasks write a stream of a few dozen bytes."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__, "support.warmed_up"])


def rescale(arguments: Sequence[str], faults: Faults, part_size: int = PART_SIZE) -> int:
    """Run `rescale` in a separate process and session; return its exit code, which is negative for a signal."""
    waits = disk_waits.are_real()
    process = _context.Process(target=_run, args=(list(arguments), faults, part_size, waits, dict(os.environ)))
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):  # tells the fork server where modules are
        process.start()
    process.join()
    code = process.exitcode
    process.close()
    assert code is not None
    return code


def _run(arguments: list[str], faults: Faults, part_size: int, waits: bool, environment: dict[str, str]) -> None:
    os.setsid()
    os.environ.clear()  # removes the variables of the fork server
    os.environ.update(environment)
    with open(f"{faults.log}.out", "a") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    install(faults)
    with (
        nullcontext() if waits else disk_waits.no_waits(),
        patch("rescale.planning.planner.PART_SIZE", part_size),
        patch("rescale.execution.rekeying.write_ranges.RANGE_SIZE", RANGE_SIZE),
        patch("rescale.planning.streams.inline.INLINE_LIMIT", 0),
        patch("rescale.storage.side_by_side.THREAD_COUNT", 1),  # so that calls come in a fixed order
        patch("rescale.cli.command_steps.run_step", run_steps),
        patch("rescale.cli.command_steps.LastingProcess", InThisProcess),
    ):
        sys.exit(main(arguments))


def run_steps(step: Step, _: str, arguments: Sequence[str], *__: object, **___: object) -> ResultDocument:
    """Run steps in place of `process.run_step`."""
    if step is Step.PREPARE:
        return _document(prepare_files(load_plan(arguments[arguments.index("--plan") + 1]), InProcessTasks()))
    assert step is Step.RUN
    for step_of_run in STEPS_OF_A_RUN:
        step_without_spark(step_of_run, arguments, InProcessTasks())
    return _document({})


def _document(result: object) -> ResultDocument:
    return ResultDocument("", msgspec.json.encode({"status": "done", **msgspec.to_builtins(result)}))


class InThisProcess:
    """Stand-in for `LastingProcess`."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self) -> None:
        pass

    def move(self, plan: Plan, proof: Proof, meanwhile: Callable[[], str] | None = None) -> None:
        if meanwhile is not None:
            meanwhile()
        for step in STEPS_OF_A_RUN:
            step_without_spark(step, ["--plan", places_of(plan).plan, "--proof", proof.value], InProcessTasks())


def step_without_spark(step: Step, arguments: Sequence[str], tasks: Tasks) -> ResultDocument:
    """Run a step with the arguments of its main, without Spark, and return its result document."""
    proof = Proof(arguments[arguments.index("--proof") + 1]) if "--proof" in arguments else Proof.RECORDS
    plan = load_plan(arguments[arguments.index("--plan") + 1])
    return _document(steps_of_a_run(proof)[step](plan, tasks))


def output(faults: Faults) -> str:
    """Return the output of the run with these faults."""
    return Path(f"{faults.log}.out").read_text()
