"""What the mains in `jobs/` share: arguments, the result document, the exit code.

A job is a process: `JOB --result URI`, most with `--plan URI`. Whatever happens, short of its being killed, it leaves a
result document and exits with the code of the error; a fault of ours is one with a traceback. An error is told once: by
the process that started this one, which has it from the document, or here if nobody is attached.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from rescale.errors import RescaleError, unexpected
from rescale.execution.meter import METER
from rescale.execution.progress import Progress
from rescale.execution.tracing import traced
from rescale.given_once import GivenOnce
from rescale.planning.values.proof import Proof
from rescale.storage.locations import normalise
from rescale.storage.store import open_store
from rescale.surgery_options import SURGERY_OPTIONS


def job_parser(description: str | None) -> argparse.ArgumentParser:
    parser = GivenOnce(description=description)
    parser.add_argument("--result", metavar="URI", required=True, help="where to put the result document (JSON)")
    parser.add_argument(
        "--master", metavar="MASTER", help="Spark's master, such as local[*]; default: what spark-submit says"
    )
    parser.add_argument(
        "--attached", action="store_true", help="end when standard input ends: with the process that started this one"
    )
    parser.add_argument(
        "--drawn", action="store_true", help="say how far the work is for a program that draws it, not in words"
    )
    return parser


def add_plan(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument(
        "--plan", metavar="URI", required=required, help="the plan, as a run stores it beside its target"
    )


def add_proof(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--proof", choices=[one.value for one in Proof], default=Proof.RECORDS.value, help="what is compared"
    )


def add_surgery(parser: argparse.ArgumentParser) -> None:
    """What one of two snapshots is declared to have otherwise, and where else files of them may lie."""
    parser.add_argument("--allow-prefix", metavar="URI", action="append", default=[])
    for option in SURGERY_OPTIONS:
        option.add_to(parser)


def run_job(arguments: argparse.Namespace, body: Callable[[], dict[str, Any]]) -> int:
    """Runs `body`, writes what it returns (or the error that it raises) to `--result`; returns the exit code.

    With it stand how many seconds that took, and metrics of it (`meter`).
    """
    Progress.drawn = arguments.drawn
    if arguments.attached:
        threading.Thread(target=_end_with_standard_input, daemon=True).start()
    failure: RescaleError | None = None
    try:
        result_uri = normalise(arguments.result)
        document, failure = _outcome(Path(sys.argv[0]).stem, body)
        _put(result_uri, document)
    except Exception as error:
        ours = unexpected(error)
        _tell(failure)
        print(f"error: the result document could not be written: {ours}", file=sys.stderr)
        return (failure or ours).exit_code
    if not arguments.attached:
        _tell(failure)
    return 0 if failure is None else failure.exit_code


def run_part(step: str, result_uri: str, body: Callable[[], dict[str, Any]]) -> None:
    """Runs `body`, the step of this name, one of several that share a job.

    It leaves a result document of its own, and its error is raised again.
    """
    store = open_store(result_uri)
    if store.stat(result_uri) is not None:
        store.delete([result_uri])
    document, failure = _outcome(step, body)
    _put(result_uri, document)
    if failure is not None:
        raise failure


def _outcome(step: str, body: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], RescaleError | None]:
    """What `body` returns or raises, as a document with the seconds that it took and what was done in them."""
    begun, before = time.monotonic(), METER.read()
    failure = None
    try:
        with traced(step):
            document = {"status": "done", **body()}
    except Exception as error:
        failure = unexpected(error)
        document = {"status": "failed", **failure.to_json()}
    seconds = round(time.monotonic() - begun, 3)
    return {**document, "seconds": seconds, "metrics": METER.metrics_since(before, seconds)}, failure


def _put(result_uri: str, document: dict[str, Any]) -> None:
    open_store(result_uri).put(result_uri, msgspec.json.encode(document))


def _tell(failure: RescaleError | None) -> None:
    if failure is not None:
        print(f"error: {failure}", file=sys.stderr)


def _end_with_standard_input() -> None:
    """Ends this process, and with it the JVM that hangs on it. Nobody writes to the pipe: a read returns at its end."""
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
