"""Common code of the mains in `jobs/`: arguments, the result document, the exit code.

A job is a process: `JOB --result URI`, in most cases with `--plan URI`. Unless it is killed, it leaves a result
document, and exits with 0 or with the code of its error. An error with a traceback is a bug in Rescale. An error is
printed once: by the parent process of an `--attached` job, which reads it from the document, else by the job itself.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from rescale.execution.meter import METER
from rescale.execution.progress import Progress
from rescale.execution.tasks.choice import step_tasks
from rescale.execution.tasks.protocol import Tasks
from rescale.execution.tracing import traced
from rescale.options.command_line import add_option
from rescale.options.profiles import add_profiles, use_profiles, use_targets
from rescale.options.rows import option
from rescale.options.strict_parser import StrictArgumentParser
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.report.step_results import StepResult
from rescale.runstate.certificate import Certificate
from rescale.runstate.documents import load_plan, refuse_unsafe_result
from rescale.storage.locations import normalise
from rescale.storage.sides import target_of
from rescale.storage.store import exists, open_store
from rescale.text.advice import SAME_COMMAND, Advice
from rescale.text.error_document import ErrorDocument
from rescale.text.errors import RequestError, RescaleError, SnapshotError, as_rescale_error


def job_parser(
    description: str | None, source: str = "source", targets: Sequence[str] = ("plan", "result")
) -> argparse.ArgumentParser:
    """Return a parser with the arguments that all jobs have.

    `source` and `targets` name the arguments whose values are URIs of the source and of targets (`add_profiles`).
    """
    parser = StrictArgumentParser(description=description)
    parser.add_argument("--result", metavar="URI", required=True, help="where to put the result document (JSON)")
    parser.add_argument(
        "--master",
        metavar="MASTER",
        help="local[N]: N processes of this machine; else Spark's master, by default the one of spark-submit",
    )
    parser.add_argument(
        "--attached",
        action="store_true",
        help="exit when standard input is closed, for example because the parent process has ended",
    )
    parser.add_argument(
        "--drawn", action="store_true", help="report progress as JSON, for a program that draws it, instead of as text"
    )
    add_profiles(parser, source, targets)
    return parser


def add_plan(parser: argparse.ArgumentParser, *, is_required: bool = True) -> None:
    parser.add_argument(
        "--plan", metavar="URI", required=is_required, help="the plan, as a run stores it beside its target"
    )


def plan_of(arguments: argparse.Namespace) -> Plan:
    """Return the plan of `--plan`, and declare its targets (`load_plan_with_targets`)."""
    return load_plan_with_targets(normalise(arguments.plan), arguments.result)


def load_plan_with_targets(uri: str, result_uri: str) -> Plan:
    """Return the plan at `uri`, and declare its target, whose store may differ from the source's (`use_targets`).

    Also declares `uri`, `result_uri`, the result that the plan continues, and the target of a follower whose round is
    the plan's source. Raises `RequestError` if there is no plan at `uri`.
    """
    locations = [uri, normalise(result_uri)]
    use_targets(locations)
    try:
        plan = load_plan(uri)
    except SnapshotError:
        if exists(uri):
            raise
        raise RequestError(
            "the plan does not exist: it was never stored here, or its target was discarded meanwhile",
            path=uri,
            expected="the plan of a run, beside the target that the run has claimed",
            advice=Advice("if somebody has discarded the target of this run, ", SAME_COMMAND, ": it begins anew"),
        ) from None
    result_uris = [] if plan.continued is None else [plan.continued.target]
    follower_target = target_of(plan.source)
    if follower_target != plan.source and plan.target.startswith(f"{follower_target}-"):
        result_uris.append(follower_target)  # the source is a round of the follower with this target
    use_targets([*locations, plan.target, *result_uris])
    return plan


def add_proof(parser: argparse.ArgumentParser) -> None:
    add_option(parser, option("proof"))


def proof_of(arguments: argparse.Namespace) -> Proof:
    """Return the kind of proof that `--proof` requests; by default, every record is compared."""
    return Proof(arguments.proof or Proof.RECORDS)


def run_job(arguments: argparse.Namespace, body: Callable[[], StepResult]) -> int:
    """Run `body`, write its result or its error to `--result`, and return the exit code.

    The document includes the seconds and metrics (`meter`) of the run.
    """
    Progress.is_drawn = arguments.drawn
    if arguments.attached:
        end_with_standard_input()
    failure: RescaleError | None = None
    try:
        use_profiles(arguments)
        result_uri = normalise(arguments.result)
        refuse_unsafe_result(result_uri)
        document, failure = _outcome(Path(sys.argv[0]).stem, body)
        open_store(result_uri).put(result_uri, document)
    except Exception as error:
        rescale_error = as_rescale_error(error)
        _print_error(failure)
        print(f"error: the result document could not be written: {rescale_error}", file=sys.stderr)
        return (failure or rescale_error).exit_code
    if not arguments.attached:
        _print_error(failure)
    return 0 if failure is None else failure.exit_code


def run_step_of_plan(
    description: str | None,
    name: str,
    work_of: Callable[[Plan], int],
    step: Callable[[Plan, Tasks], StepResult],
    *,
    on_driver: bool = False,
) -> int:
    """Run a step of the plan that `--plan` names, and return the exit code; for mains without arguments of their own.

    `description` is the text of `--help`. `work_of` returns the number of bytes that the step will process.
    `step_tasks` describes this number (`work_bytes`), `name` and `on_driver`.
    """
    parser = job_parser(description)
    add_plan(parser)
    arguments = parser.parse_args()

    def body() -> StepResult:
        plan = plan_of(arguments)
        with step_tasks(name, arguments.master, work_of(plan), on_driver=on_driver) as tasks:
            return step(plan, tasks)

    return run_job(arguments, body)


def run_step_of_job(step: str, result_uri: str, body: Callable[[], StepResult]) -> None:
    """Run `body`, one of several steps of a job, write its result or error to `result_uri`, and raise the error."""
    store = open_store(result_uri)
    if exists(result_uri):
        store.delete([result_uri])
    document, failure = _outcome(step, body)
    store.put(result_uri, document)
    if failure is not None:
        raise failure


def _outcome(step: str, body: Callable[[], StepResult]) -> tuple[bytes, RescaleError | None]:
    """Run `body`; return its result or error as a JSON document with seconds and metrics, and the error."""
    start_time, counters_before = time.monotonic(), METER.read()
    failure: RescaleError | None = None
    document: StepResult | ErrorDocument
    try:
        with traced(step):
            result = body()
        document = result.document() if isinstance(result, Certificate) else result
    except Exception as error:
        failure = as_rescale_error(error)
        document = failure.document()
    seconds = round(time.monotonic() - start_time, 3)
    fields = {} if document is None else msgspec.to_builtins(document)
    measurements = {"seconds": seconds, "metrics": METER.metrics_since(counters_before, seconds)}
    return msgspec.json.encode({"status": "done" if failure is None else "failed", **fields, **measurements}), failure


def _print_error(failure: RescaleError | None) -> None:
    if failure is not None:
        print(f"error: {failure}", file=sys.stderr)


def end_with_standard_input() -> None:
    """End this process, and the JVM that it has started, when standard input ends."""
    threading.Thread(target=_terminate_at_end_of_input, daemon=True).start()


def _terminate_at_end_of_input() -> None:
    """End this process when standard input ends, and with it the process group that it leads.

    Nobody writes to standard input, so a read returns only at its end. The JVM of Spark ends by itself after this
    process, unless it is still starting. Such a JVM might run on, because it cannot write its port into the scratch
    directory, which is removed by then. So the whole group gets the signal.
    """
    os.read(0, 1)
    leads_a_group = os.getpgrp() == os.getpid()
    (os.killpg if leads_a_group else os.kill)(os.getpid(), signal.SIGTERM)
