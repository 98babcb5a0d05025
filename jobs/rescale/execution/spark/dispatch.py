"""Units dealt to Spark's tasks in slices, and what becomes of their errors.

A task returns a final error as a row: raised, Spark would try it four times and hand it over as text. A
`StoreError` is raised, so that Spark tries the task again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import TypeVar

from py4j.protocol import Py4JJavaError

from rescale.errors import RescaleError, StoreError
from rescale.execution.progress import Progress

SLICE_BYTES = 256 * 1024 * 1024
SLICE_UNITS = 64
_POLL_SECONDS = 1.0

U = TypeVar("U")
R = TypeVar("R")


@contextmanager
def failures_as_ours() -> Iterator[None]:
    """In the block, a task that Spark gives up is a `StoreError`."""
    try:
        yield
    except Py4JJavaError as error:
        raise StoreError(
            "a task failed again and again",
            found=_last_words(str(error)),
            advice="look at the log above for the cause, then run the same command again: it resumes",
        ) from None


def attempt(work: Callable[[U], R], unit: U) -> tuple[R | None, RescaleError | None]:
    """What came of a unit, or the final error that it met; any other is raised."""
    try:
        return work(unit), None
    except RescaleError as error:
        if not error.final:
            raise
        return None, error


def slices_of(units: Sequence[tuple[int, U]], parallelism: int) -> list[list[tuple[int, U]]]:
    """Runs of units that one task works through: bounded in bytes and number, at least one for every core."""
    total = sum(weight for weight, _ in units)
    limit = min(SLICE_BYTES, max(1, total // parallelism))
    count = min(SLICE_UNITS, max(1, -(-len(units) // parallelism)))
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


def _last_words(text: str) -> str:
    """The line of a Python traceback inside a Java one that names the error, with the details of an error of ours."""
    lines = text.strip().splitlines()
    named = [i for i, line in enumerate(lines) if "Error: " in line or "Exception: " in line] or [0]
    details = takewhile(lambda line: line.startswith("  ") and not line.isspace(), lines[named[-1] + 1 :])
    return "; ".join(line.strip()[:300] for line in (lines[named[-1]], *details))
