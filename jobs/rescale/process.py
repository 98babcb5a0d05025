"""Run steps that read or move state, each in a process of its own on this machine.

A step gets the plan's URI and writes a result document; its log goes to standard error. Its standard input is a pipe
whose other end only its parent holds. So the step ends with its parent, even if SIGKILL ends the parent.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import NamedTuple, TypeVar

import msgspec

from rescale.runstate.documents import read_document, refuse_unsafe_result
from rescale.runstate.step import Step, StepEnd
from rescale.storage.store import exists, open_store
from rescale.text.advice import SAME_COMMAND, Advice
from rescale.text.error_document import ErrorDocument
from rescale.text.errors import DECODE_ERRORS, RequestError, RescaleError, StoreError
from rescale.text.names import printable
from rescale.ticks import Tick, tick_of

T = TypeVar("T")

GRACE_SECONDS = 20
LAST_LINES_SECONDS = 5
"""Seconds to wait for the last lines of a process that has ended."""

_JVM_WARNING = "WARNING: Using incubator modules: jdk.incubator.vector"
"""Warning of every JVM that Spark starts, because Spark adds this module (`JavaModuleOptions`)."""

_SAFE_PATH_VARIABLE = "PYTHONSAFEPATH"
"""Environment variable that keeps Python, and Spark's workers, from importing modules in the working directory. Without
this variable, `python -m` would import a `random.py` there instead of Python's own."""


def run_step(
    step: Step,
    result_uri: str,
    arguments: Sequence[str],
    say: Callable[[str], None] | None = None,
    draw: Callable[[Tick], None] | None = None,
    environment: Mapping[str, str] | None = None,
) -> ResultDocument:
    """Run a step's process to its end, and return its result document.

    The step's log goes to standard error, or line by line to `say`, without control characters. `draw` gets the step's
    progress. `say` and `draw` are called in another thread. `environment` has the step's variables; with None, the step
    inherits those of this process. Raises the error of the step, or `StoreError` if it ended without a result. If this
    process is interrupted, it ends all processes of the step, including workers and Spark.
    """
    refuse_without_spark()
    refuse_unsafe_result(result_uri)
    if exists(result_uri):  # a bucket policy may forbid a delete of an object that the run has not put
        open_store(result_uri).delete([result_uri])
    drawing_arguments = [] if draw is None else ["--drawn"]
    module_arguments = [step.value, "--attached", *drawing_arguments, "--result", result_uri, *arguments]
    process = start_process(
        module_arguments, os.environ if environment is None else environment, captures_output=say is not None
    )
    try:
        with listening(process, say, draw):
            exit_code = process.wait()
    except BaseException:
        end_process_group(process)
        raise
    finally:
        if process.stdin is not None:
            process.stdin.close()
    if not exists(result_uri):
        raise StoreError(
            f"the process of the step {step.value!r} ended without a result",
            found=f"exit code {exit_code}",
            advice=Advice("look at its output above (was it out of memory?), then ", SAME_COMMAND, ": it resumes"),
        )
    return read_result(result_uri)


def refuse_without_spark() -> None:
    """Raise `RequestError` if the optional dependencies that move state are not installed."""
    if find_spec("pyspark") is None:
        raise RequestError(
            "moving and comparing state needs optional dependencies that are not installed",
            found="no pyspark",
            advice='pip install "flink-rescale[spark]"; in a checkout: uv sync --all-extras',
        )


def start_process(
    module_arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    captures_output: bool,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Run `python -m` with `module_arguments` in a new process group; `captures_output` sends its output to a pipe."""
    return subprocess.Popen(
        [sys.executable, "-m", *module_arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if captures_output else sys.stderr.fileno(),
        stderr=subprocess.STDOUT if captures_output else None,
        start_new_session=True,
        pass_fds=pass_fds,
        env={**environment, _SAFE_PATH_VARIABLE: "1"},
    )


class ResultDocument(NamedTuple):
    """Result document of a step that did not fail, and the URI from which it was read."""

    uri: str
    data: bytes

    def read(self, document_type: type[T]) -> T:
        """Return the document as a value of a type.

        Raises `StoreError` if it is damaged: only another run of the step can restore it.
        """
        try:
            return msgspec.json.decode(self.data, type=document_type)
        except DECODE_ERRORS as error:
            raise StoreError(
                "the result of a step cannot be read",
                path=self.uri,
                found=error,
                advice=Advice(SAME_COMMAND, ": it resumes, or says that it is done"),
            ) from None


def read_result(uri: str) -> ResultDocument:
    """Return the result document of a step. Raises the error of the step, or `StoreError` for a damaged document."""
    document = ResultDocument(uri, read_document(uri))
    if document.read(StepEnd).status == "failed":
        raise RescaleError.of_document(document.read(ErrorDocument))
    return document


@contextmanager
def listening(
    process: subprocess.Popen[bytes], say: Callable[[str], None] | None, draw: Callable[[Tick], None] | None
) -> Iterator[None]:
    """During the block, pass ticks to `draw` and other printed lines to `say`; then wait briefly for the last lines."""
    if say is None or process.stdout is None:
        yield
        return
    lines = io.TextIOWrapper(process.stdout, encoding="utf-8", errors="replace")

    def listen() -> None:
        with lines:
            for line in lines:
                if draw is not None and (tick := tick_of(line)) is not None:
                    draw(tick)
                elif line.rstrip() != _JVM_WARNING:
                    say(printable(line.rstrip().expandtabs()))

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    yield
    listener.join(LAST_LINES_SECONDS)


def end_process_group(process: subprocess.Popen[bytes]) -> None:
    """End the step's process group: by SIGTERM, then by SIGKILL."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, signal_number)
            process.wait(GRACE_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
