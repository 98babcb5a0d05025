"""The work for a subtask does not grow with the number of subtasks: nothing is done for every pair of them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import rescale
from big_savepoint import write_savepoint
from rescale.execution.compare.validation.check_units import list_checks
from rescale.execution.compare.validation.coverage import check_raw_timers
from rescale.execution.compare.validation.directories import DirectoryFiles
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keyed.timers.heap_timers import TimerService, timer_header
from rescale.planning.prepare import prepare
from rescale.planning.request.request import make_request
from rescale.report.pages.inspection import inspection, inspection_page
from rescale.report.pages.planned import plan_document, plan_page
from rescale.report.renderers.text import render_text
from rescale.runstate.removal import discard
from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.reading.opening import open_snapshot
from support.pipeline import execute_without_spark, move
from support.s3 import S3Server, put_files, requests_of
from support.snapshot_bytes import LONG, VOID_NAMESPACE, parsed
from support.synthetic import database, operator, own_stream, snapshot

MAX_PARALLELISM = 720
MOST_LINES_PER_PAIR = 0.2
"""Most lines of code that may run per pair: work on a pair would run at least one, but measurements vary a little."""


@pytest.fixture
def new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """Return a function that returns a new folder each time, after forbidding inline state."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    numbers = count()
    return lambda: tmp_path / str(next(numbers))


def write_snapshot(folder: Path, parallelism: int) -> str:
    source = folder / "source"
    write_savepoint(
        source,
        200_000,
        value_size=100,
        parallelism=parallelism,
        max_parallelism=MAX_PARALLELISM,
        elements=2,
    )
    return str(source)


def test_whole_run_does_no_work_for_each_pair_of_subtasks(
    new_folder: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Equal headers are read once or by several threads, and the search for a better maximum ends sooner with more
    # subtasks: both would blur the count.
    monkeypatch.setattr("rescale.snapshot.reading.opening._READS_AT_ONCE", 1)
    monkeypatch.setattr("rescale.insight.shapes.good_max_parallelism", lambda parallelism, maximum: maximum)  # noqa: ARG005

    def prepare_action(parallelism: int) -> Callable[[], object]:
        folder = new_folder()
        source = write_snapshot(folder, parallelism)

        def run() -> None:
            render_text(inspection_page(inspection(open_snapshot(source))))
            request = make_request(source, str(folder / "target"), [str(parallelism * 4 // 5)])
            prepared_plan = prepare(request)
            render_text(plan_page(plan_document(*prepared_plan)))
            execute_without_spark(prepared_plan.plan)

        return run

    assert lines_for_each_pair(prepare_action, 20) < MOST_LINES_PER_PAIR


def test_inspection_and_plan_send_at_most_three_requests_for_each_file(s3: S3Server, tmp_path: Path) -> None:
    bucket = s3.new_bucket("many")
    source, subtask_count = f"s3://{bucket}/source", 60
    put_files(Path(write_snapshot(tmp_path, subtask_count)), source)
    request = make_request(source, f"s3://{bucket}/target", ["40"])
    for action in (lambda: inspection(open_snapshot(source)), lambda: prepare(request)):
        assert subtask_count < requests_of(action).total() <= 3 * subtask_count


def test_discard_does_no_work_for_each_pair_of_subtasks(new_folder: Callable[[], Path]) -> None:
    def prepare_action(parallelism: int) -> Callable[[], object]:
        folder = new_folder()
        target = str(folder / "target")
        request = make_request(write_snapshot(folder, parallelism), target, [str(parallelism * 4 // 5)])
        move(prepare(request).plan, InProcessTasks())
        return lambda: discard(target)

    assert lines_for_each_pair(prepare_action, 10) < MOST_LINES_PER_PAIR


def test_listing_checks_of_directories_does_no_work_for_each_pair_of_subtasks() -> None:
    """The first directory is proven by its files, and the others must be read."""

    def prepare_action(parallelism: int) -> Callable[[], object]:
        old, new = (
            operator("uid", n, MAX_PARALLELISM, databases=tuple(database(i, n, MAX_PARALLELISM, 100) for i in range(n)))
            for n in (parallelism, parallelism * 4 // 5)
        )
        by_files = [{0: DirectoryFiles(0, 1, (), (), 0)}]
        return lambda: list_checks(snapshot(old), snapshot(new), {}, by_files)

    assert lines_for_each_pair(prepare_action, 60) < MOST_LINES_PER_PAIR


def test_check_of_raw_timers_does_no_work_for_each_pair_of_subtasks() -> None:
    service = TimerService("timers", parsed(LONG), parsed(VOID_NAMESPACE))

    def timers(subtask: int, parallelism: int, max_parallelism: int) -> KeyedStream:
        stream = own_stream(subtask, parallelism, max_parallelism, Framing.RAW)
        return replace(stream, timer_services=(service,), parsed=timer_header([service]))

    def prepare_action(parallelism: int) -> Callable[[], object]:
        old, new = (
            operator("uid", n, max_parallelism, raw_keyed=tuple(timers(i, n, max_parallelism) for i in range(n)))
            for n, max_parallelism in ((parallelism, MAX_PARALLELISM), (parallelism * 4 // 5, 2 * MAX_PARALLELISM))
        )
        return lambda: check_raw_timers(old, new)

    assert lines_for_each_pair(prepare_action, 60) < MOST_LINES_PER_PAIR


_PACKAGE_FOLDER = str(Path(rescale.__file__).parent)


def lines_run_by(action: Callable[[], object]) -> int:
    """Count the lines of the package that run, in this thread and those it starts; comprehensions count per item."""
    lines = count()

    def trace_line(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ARG001
        if event == "line":
            next(lines)
        return trace_line

    def trace_call(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ARG001
        return trace_line if frame.f_code.co_filename.startswith(_PACKAGE_FOLDER) else None

    earlier_trace = sys.gettrace()
    threading.settrace(trace_call)
    sys.settrace(trace_call)
    try:
        action()
    finally:
        sys.settrace(earlier_trace)
        threading.settrace(earlier_trace)  # type: ignore[arg-type]
    return next(lines)


def lines_for_each_pair(prepare_action: Callable[[int], Callable[[], object]], subtask_count: int) -> float:
    """Return the number of lines that run once for each pair of subtasks.

    `prepare_action` returns the action for n subtasks, which runs a + b n + c n² lines. A second difference gives c.
    """
    lines_run_by(prepare_action(subtask_count))  # runs what happens only the first time
    lines_of_single, lines_of_double, lines_of_triple = (
        lines_run_by(prepare_action(factor * subtask_count)) for factor in (1, 2, 3)
    )
    return (lines_of_single - 2 * lines_of_double + lines_of_triple) / (2 * subtask_count * subtask_count)
