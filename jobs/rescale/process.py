"""The steps that read or move state run as processes of their own: here they are started on this machine.

A step gets the plan's URI and leaves a result document; what it has to say on the way goes to standard error. Its
standard input is a pipe that only its starter holds, so it ends when the starter is gone, by SIGKILL too.
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
from enum import StrEnum
from importlib.util import find_spec
from typing import Any

import msgspec

from rescale.errors import RequestError, RescaleError, StoreError
from rescale.names import printable
from rescale.storage.store import open_store
from rescale.target.documents import read_document
from rescale.ticks import Tick, tick_of

_GRACE_SECONDS = 20
_LAST_WORDS_SECONDS = 5

_OF_EVERY_JVM = "WARNING: Using incubator modules: jdk.incubator.vector"
"""What Java says because Spark asks for that module (`JavaModuleOptions`), and nobody can change."""

_SAFE_PATH = "PYTHONSAFEPATH"
"""Keeps Python, that of Spark's workers too, from importing what lies in the working directory: with `-m` a `random.py`
there would come before its own."""


class Step(StrEnum):
    """The steps; the value is the name of the main in `jobs/`. `RUN` are those of a run, one after the other."""

    RESHUFFLE = "reshuffle_keyed_state"
    REDISTRIBUTE = "redistribute_operator_state"
    VALIDATE = "validate_coverage"
    RUN = "move_and_validate"
    DIFF = "diff_snapshots"


STEPS_OF_A_RUN = (Step.RESHUFFLE, Step.REDISTRIBUTE, Step.VALIDATE)
"""In order."""


def run_step(
    step: Step,
    result_uri: str,
    arguments: Sequence[str],
    say: Callable[[str], None] | None = None,
    draw: Callable[[Tick], None] | None = None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Runs a step's process to its end and returns its result document, without status, seconds and metrics.

    What it has to say goes to standard error, or line by line to `say`, with nothing in it that a terminal would obey.
    With `draw`, which is called in a thread as `say` is, that gets how far it is. `environment` is the process's own;
    None: this one's.

    Raises the error that the step ended with, or `StoreError` when it died without saying why. When this process
    is interrupted, the step's processes (Spark's among them) are ended too.
    """
    if find_spec("pyspark") is None:
        raise RequestError(
            "moving and comparing state needs more of the package than is installed",
            found="no pyspark",
            advice='pip install "rescale[spark]"; in a checkout: uv sync --all-extras',
        )
    store = open_store(result_uri)
    if store.stat(result_uri) is not None:  # who may delete only what he has put there is not asked for more
        store.delete([result_uri])
    drawn = [] if draw is None else ["--drawn"]
    words = [step.value, "--attached", *drawn, "--result", result_uri, *arguments]
    process = _start(words, os.environ if environment is None else environment, is_heard=say is not None)
    try:
        with _listening(process, say, draw):
            code = process.wait()
    except BaseException:
        _end(process)
        raise
    finally:
        if process.stdin is not None:
            process.stdin.close()
    if store.stat(result_uri) is None:
        raise StoreError(
            f"the process of the step {step.value!r} ended without a result",
            found=f"exit code {code}",
            advice="look at its output above (out of memory?), then run the same command again: it resumes",
        )
    return read_result(result_uri)


def _start(words: Sequence[str], environment: Mapping[str, str], *, is_heard: bool) -> subprocess.Popen[bytes]:
    """A main with its arguments, in a process group of its own; what it says comes by a pipe if it is to be heard."""
    return subprocess.Popen(
        [sys.executable, "-m", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if is_heard else sys.stderr.fileno(),
        stderr=subprocess.STDOUT if is_heard else None,
        start_new_session=True,
        env={**environment, _SAFE_PATH: "1"},
    )


def read_result(uri: str) -> dict[str, Any]:
    """The result document of a step, without status, seconds and metrics; raises the error that the step ended with.

    `StoreError` if it is not as it was written: nothing but another run of the step tells what it was.
    """
    try:
        document: dict[str, Any] = msgspec.json.decode(read_document(uri), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _unread(uri, str(error)) from None
    if "status" not in document or (document["status"] != "done" and not {"error", "what"} <= document.keys()):
        raise _unread(uri, "no status, or no error where it failed")
    for of_the_process in ("seconds", "metrics"):  # which others read
        document.pop(of_the_process, None)
    if document.pop("status") != "done":
        raise RescaleError.from_json(document)
    return document


def _unread(uri: str, found: str) -> StoreError:
    return StoreError(
        "the result of a step cannot be read",
        path=uri,
        found=found,
        advice="run the same command again: it resumes, or says that it is done",
    )


@contextmanager
def _listening(
    process: subprocess.Popen[bytes], say: Callable[[str], None] | None, draw: Callable[[Tick], None] | None
) -> Iterator[None]:
    """In the block, each line of the process is said; its last words too, but what it leaves behind keeps nobody."""
    if say is None or process.stdout is None:
        yield
        return
    lines = io.TextIOWrapper(process.stdout, encoding="utf-8", errors="replace")

    def listen() -> None:
        with lines:
            for line in lines:
                if draw is not None and (tick := tick_of(line)) is not None:
                    draw(tick)
                elif line.rstrip() != _OF_EVERY_JVM:
                    say(printable(line.rstrip().expandtabs()))

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    yield
    listener.join(_LAST_WORDS_SECONDS)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the step's process group: politely, then for good."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(_GRACE_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
