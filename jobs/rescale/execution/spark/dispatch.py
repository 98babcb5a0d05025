"""Units dealt to Spark's tasks in slices, and what becomes of their errors.

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

from rescale.errors import InternalError, RescaleError, StoreError, unexpected
from rescale.execution.progress import Progress
from rescale.planning.task_sizes import MOST_SLICES, SLICE_BYTES

SLICE_UNITS = 64
_POLL_SECONDS = 1.0
_ADVICE = "look at the log above for the cause, then run the same command again: it resumes"
_AGAIN_AND_AGAIN = "a task failed again and again"
_TRACEBACK = "Traceback (most recent call last)"
_BEHIND_TRACEBACK = ("\t", " SQLSTATE")
"""What Spark says right behind one of Python's."""
_OURS = f"{RescaleError.__module__}."
_STOPPED = ("stopped SparkContext", "SparkContext was shut down")
"""What Spark says of what was asked of it, or under way, when it had been stopped."""
_WORTH_ANOTHER_TRY = {"MemoryError", "OSError", "ConnectionResetError", "BrokenPipeError", "EOFError"}
"""What a task may have raised that another try need not meet."""

U = TypeVar("U")
R = TypeVar("R")


@contextmanager
def failures_as_ours() -> Iterator[None]:
    """In the block, a task that Spark gives up is one of our errors, and so is a Spark that is gone.

    Of a JVM that has ended, py4j says no more than that it was called (`GatewayClient.send_command`).
    """
    try:
        yield
    except Py4JJavaError as error:
        raise given_up(str(error)) from None
    except (Py4JError, ConnectionError) as error:
        raise StoreError("Spark is gone", found=repr(error), advice=_ADVICE) from None


def attempt(work: Callable[[U], R], unit: U) -> tuple[R | None, RescaleError | None]:
    """What came of a unit, or the final error that it met; any other is raised."""
    try:
        return work(unit), None
    except Exception as error:
        ours = unexpected(error)
        if not ours.final:
            raise ours from None
        return None, ours


def slices_of(units: Sequence[tuple[int, U]], parallelism: int) -> list[list[tuple[int, U]]]:
    """Runs of units that one task works through: bounded in bytes and number, at least one for every core.

    They are larger where there were more than `MOST_SLICES` else, and these are enough for all cores.
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
    """Reports the bytes done about every second while the block runs."""
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
    """What it was that a task failed with, from what py4j tells of the JVM's exception.

    One of our errors is that error again, and an exception of Python's that nobody expected a fault of ours.
    """
    if _TRACEBACK not in text:
        return _of_spark(text.partition("\n: ")[2] or text)
    lines = text[text.rindex(_TRACEBACK) :].splitlines()
    traceback = list(takewhile(lambda line: line and not line.startswith(_BEHIND_TRACEBACK), lines))
    last = max(i for i, line in enumerate(traceback) if not line.startswith(" "))
    kind, _, told = "\n".join(traceback[last:]).partition(": ")
    ours = RescaleError.from_text(kind.removeprefix(_OURS), told) if kind.startswith(_OURS) and told else None
    if ours is not None:
        return ours if ours.final else ours.located(advice=_ADVICE)
    words = "; ".join(line.strip()[:300] for line in traceback[last:])
    if kind.rpartition(".")[2] in _WORTH_ANOTHER_TRY:
        return StoreError(_AGAIN_AND_AGAIN, found=words, advice=_ADVICE)
    return InternalError.seen(words, "\n".join(traceback))


def _of_spark(words: str) -> StoreError:
    """What no Python is to blame for, in the words of the JVM's exception."""
    what = "Spark has stopped" if any(one in words for one in _STOPPED) else _AGAIN_AND_AGAIN
    return StoreError(what, found=words.strip().splitlines()[0][:300], advice=_ADVICE)
