"""What the mains in `jobs/` share: arguments, the result document, the exit code.

A job is a process: `JOB --result URI`, most with `--plan URI`. Whatever happens, it leaves a result document and exits
with the code of the error. An error is told once, without a traceback: by the process that started this one, which has
it from the document, or here if nobody is attached.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from rescale.errors import RescaleError
from rescale.storage.locations import normalise
from rescale.storage.store import open_store


def job_parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--result", metavar="URI", required=True, help="where to put the result document (JSON)")
    parser.add_argument(
        "--master", metavar="MASTER", help="Spark's master, such as local[*]; default: what spark-submit says"
    )
    parser.add_argument(
        "--attached", action="store_true", help="end when standard input ends: with the process that started this one"
    )
    return parser


def add_plan(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument(
        "--plan", metavar="URI", required=required, help="the plan, as a run stores it beside its target"
    )


def run_job(arguments: argparse.Namespace, body: Callable[[], dict[str, Any]]) -> int:
    """Runs `body`, writes what it returns (or the error that it raises) to `--result`; returns the exit code.

    With it stands how many seconds that took.
    """
    if arguments.attached:
        threading.Thread(target=_end_with_standard_input, daemon=True).start()
    failure: RescaleError | None = None
    try:
        result_uri = normalise(arguments.result)
        begun = time.monotonic()
        document, failure = _outcome(body)
        document["seconds"] = round(time.monotonic() - begun, 3)
        open_store(result_uri).put(result_uri, msgspec.json.encode(document))
    except RescaleError as error:
        _tell(failure)
        print(f"error: the result document could not be written: {error}", file=sys.stderr)
        return (failure or error).exit_code
    if not arguments.attached:
        _tell(failure)
    return 0 if failure is None else failure.exit_code


def _outcome(body: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], RescaleError | None]:
    try:
        return {"status": "done", **body()}, None
    except RescaleError as error:
        return {"status": "failed", **error.to_json()}, error


def _tell(failure: RescaleError | None) -> None:
    if failure is not None:
        print(f"error: {failure}", file=sys.stderr)


def _end_with_standard_input() -> None:
    """Ends this process, and with it the JVM that hangs on it. Nobody writes to the pipe: a read returns at its end."""
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
