"""Slices of units for Spark's tasks, and the handling of their errors.

A task returns a final error as a row: raised, Spark would try it four times and hand it over as text. A
`StoreError` is raised, so that Spark tries the task again; what the last try met is read from that text.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import TypeVar

from py4j.protocol import Py4JError, Py4JJavaError

from rescale.execution.progress import Progress
from rescale.planning.task_sizes import MOST_SLICES, SLICE_BYTES
from rescale.text.advice import SAME_COMMAND, Advice
from rescale.text.errors import InternalError, RescaleError, StoreError, unexpected

SLICE_UNITS = 64
_POLL_SECONDS = 1.0
_ADVICE = Advice("find the cause in the log above, then ", SAME_COMMAND, " to resume")
_AGAIN_AND_AGAIN = "a task failed repeatedly"
_TRACEBACK = "Traceback (most recent call last)"
_BEHIND_TRACEBACK = ("\t", " SQLSTATE")
"""Line that Spark appends right behind a Python traceback."""
_OURS = f"{RescaleError.__module__}."
_STOPPED = ("stopped SparkContext", "SparkContext was shut down")
"""Messages of Spark for work that was submitted or under way when it was stopped."""
_WORTH_ANOTHER_TRY = {"MemoryError", "OSError", "ConnectionResetError", "BrokenPipeError", "EOFError"}
"""Errors of a task after which another try may succeed."""

U = TypeVar("U")
R = TypeVar("R")


@contextmanager
def failures_as_ours() -> Iterator[None]:
    """Raise a failure of Spark in the block as one of our errors, also if Spark is gone.

    If the JVM has ended, py4j only says which command it was sent (`GatewayClient.send_command`).
    """
    try:
        yield
    except Py4JJavaError as error:
        raise given_up(str(error)) from None
    except (Py4JError, ConnectionError) as error:
        raise StoreError("Spark is gone", found=repr(error), advice=_ADVICE) from None


def attempt(work: Callable[[U], R], unit: U) -> tuple[R | None, RescaleError | None]:
    """Return the result of a unit, or its final error; other errors are raised."""
    try:
        return work(unit), None
    except Exception as error:
        ours = unexpected(error)
        if not ours.final:
            raise ours from None
        return None, ours


def slices_of(units: Sequence[tuple[int, U]], parallelism: int) -> list[list[tuple[int, U]]]:
    """Split units into slices, one for a task: bounded in bytes and number of units, at least one for every core.

    Slices are larger if there would be more than `MOST_SLICES`.
    """
    total = sum(weight for weight, _ in units)
    limit = min(max(SLICE_BYTES, total // MOST_SLICES), max(1, total // parallelism))
    count = min(max(SLICE_UNITS, -(-len(units) // MOST_SLICES)), max(1, -(-len(units) // parallelism)))
    slices: list[list[tuple[int, U]]] = [[]]
    size = 0
    for weight, unit in units:
        if slices[-1] and (size + weight > limit or len(slices[-1]) >= count):
            slices.append([])
            size = 0
        slices[-1].append((weight, unit))
        size += weight
    return slices


@contextmanager
def reported(progress: Progress, done: Callable[[], int]) -> Iterator[None]:
    """Report the bytes done about every second while the block runs."""
    finished = threading.Event()

    def report() -> None:
        while not finished.wait(_POLL_SECONDS):
            progress.at(done())

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        finished.set()
        reporter.join()
    progress.finish(done())


def given_up(text: str) -> RescaleError:
    """Return the error with which a task failed, from py4j's text of the JVM's exception.

    One of our errors is restored; an unexpected Python exception becomes an `InternalError`.
    """
    if _TRACEBACK not in text:
        return _of_spark(text.partition("\n: ")[2] or text)
    lines = text[text.rindex(_TRACEBACK) :].splitlines()
    traceback = list(takewhile(lambda line: line and not line.startswith(_BEHIND_TRACEBACK), lines))
    last = max(i for i, line in enumerate(traceback) if not line.startswith(" "))
    kind, _, message = "\n".join(traceback[last:]).partition(": ")
    ours = RescaleError.from_text(kind.removeprefix(_OURS), message) if kind.startswith(_OURS) and message else None
    if ours is not None:
        return ours if ours.final else ours.located(advice=_ADVICE)
    summary = "; ".join(line.strip()[:300] for line in traceback[last:])
    if kind.rpartition(".")[2] in _WORTH_ANOTHER_TRY:
        return StoreError(_AGAIN_AND_AGAIN, found=summary, advice=_ADVICE)
    return InternalError.seen(summary, "\n".join(traceback))


def _of_spark(message: str) -> StoreError:
    """Return the error for a failure outside of Python, with the message of the JVM's exception."""
    failure = "Spark has stopped" if any(sign in message for sign in _STOPPED) else _AGAIN_AND_AGAIN
    return StoreError(failure, found=message.strip().splitlines()[0][:300], advice=_ADVICE)
