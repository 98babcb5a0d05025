"""Slices of units, one for each task, and the handling of errors of a task.

A task returns a final error, because the same input would fail again. It raises any other error, and is then tried
again, as is a task whose worker was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

from rescale.planning.task_sizes import MOST_SLICES, SLICE_BYTES
from rescale.snapshot.read_counter import counting_read_bytes
from rescale.text.advice import SAME_COMMAND, Advice
from rescale.text.errors import RescaleError, as_rescale_error

SLICE_UNITS = 64

SLICES_PER_CORE = 2
"""Number of slices for each core of this machine, if there are enough units.

With one slice for each core, an uneven split would let cores wait: six databases of about the same size could become
three slices, and one of two cores would wait while the other one runs the third slice.
"""

ATTEMPTS = 4
"""Number of attempts before a task fails for good."""

FAILED_REPEATEDLY = "a task failed repeatedly"
RESUME_ADVICE = Advice("find the cause in the log above, then ", SAME_COMMAND, " to resume")

_UNITS_AT_ONCE = 4
"""Units of a slice that run at once, since small units mostly wait for the store.

A unit has at most one part of a file in memory.
"""

U = TypeVar("U")
R = TypeVar("R")

Outcome = tuple[R | None, RescaleError | None]
"""Result of a unit and None, or None and the final error of the unit."""


def slices_of(units: Sequence[tuple[int, U]], parallelism: int) -> list[list[tuple[int, U]]]:
    """Split units, given as (bytes, unit), into slices, one for each task.

    A slice is bounded in bytes and number of units, so that there are at least `parallelism` slices if there are enough
    units. Slices are larger if there would be more than `MOST_SLICES`.
    """
    total_weight = sum(weight for weight, _ in units)
    most_bytes = min(max(SLICE_BYTES, total_weight // MOST_SLICES), max(1, total_weight // parallelism))
    most_units = min(max(SLICE_UNITS, -(-len(units) // MOST_SLICES)), max(1, -(-len(units) // parallelism)))
    slices: list[list[tuple[int, U]]] = [[]]
    slice_bytes = 0
    for weight, unit in units:
        if slices[-1] and (slice_bytes + weight > most_bytes or len(slices[-1]) >= most_units):
            slices.append([])
            slice_bytes = 0
        slices[-1].append((weight, unit))
        slice_bytes += weight
    return slices


def work_through(
    work: Callable[[U], R], units: Sequence[tuple[int, U]], report_bytes: Callable[[int], None]
) -> Iterator[Outcome[R]]:
    """Yield the outcome of every unit of a slice in order, up to the first final error.

    `report_bytes` is called with the bytes done since its last call, by one thread at a time. In the end, these add up
    to the weights of the units.
    """
    report_lock = Lock()

    def add(byte_count: int) -> None:
        with report_lock:
            report_bytes(byte_count)

    def attempt_unit(weighed_unit: tuple[int, U]) -> Outcome[R]:
        weight, unit = weighed_unit
        with counting_read_bytes(weight, add):
            return attempt(work, unit)

    pool = ThreadPoolExecutor(_UNITS_AT_ONCE)
    try:
        for outcome in pool.map(attempt_unit, units):
            yield outcome
            if outcome[1] is not None:
                return
    finally:
        pool.shutdown(cancel_futures=True)


def attempt(work: Callable[[U], R], unit: U) -> Outcome[R]:
    """Return the result of a unit, or its final error; other errors are raised."""
    try:
        return work(unit), None
    except Exception as error:
        rescale_error = as_rescale_error(error)
        if not rescale_error.is_final:
            raise rescale_error from None
        return None, rescale_error


def results_of(outcomes: Sequence[Outcome[R]]) -> list[R]:
    """Return the results. Raises a final error if there is one.

    Of several errors, the first in the order of their texts is raised, so timing does not matter.
    """
    errors = [error for _, error in outcomes if error is not None]
    if errors:
        raise min(errors, key=str)
    return [result for result, _ in outcomes if result is not None]
