"""Tasks give the same results, wherever the work runs."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from rescale.execution.progress import ByteAction, Progress
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.execution.tasks.protocol import Tasks
from rescale.text.errors import SnapshotError, StoreError
from support.pipeline import shared_processes, shared_spark
from support.slow import slow

in_all_forms = pytest.mark.parametrize(
    "make_tasks",
    [lambda: InProcessTasks(random=Random(3)), shared_processes, shared_spark],
    ids=["loop", "processes", "spark"],
)
MakeTasks = Callable[[], Tasks]


def units(count: int) -> list[tuple[int, int]]:
    return [(1, i) for i in range(count)]


@in_all_forms
def test_every_unit_is_worked_on_once(make_tasks: MakeTasks, capfd: pytest.CaptureFixture[str]) -> None:
    squares = make_tasks().run(lambda unit: unit * unit, units(1000), Progress("squares", 1000, ByteAction.READ))
    assert sorted(squares) == [i * i for i in range(1000)]
    output = capfd.readouterr().err
    assert "squares: 1 kB read in" in output
    assert "Reconfiguration failed" not in output, "Spark's log is set up by a file of ours"


@in_all_forms
def test_run_without_units_reports_no_progress(make_tasks: MakeTasks, capfd: pytest.CaptureFixture[str]) -> None:
    assert make_tasks().run(lambda unit: unit, units(0), Progress("nothing", 0, ByteAction.READ)) == []
    assert "nothing" not in capfd.readouterr().err


@in_all_forms
def test_a_final_error_of_a_task_arrives_as_itself(make_tasks: MakeTasks, tmp_path: Path) -> None:
    attempt_log = tmp_path / "tries"
    details = {"path": "/p", "offset": 5, "operator": "o", "state": "s", "expected": "1", "found": "2", "advice": "a"}

    def work(unit: int) -> int:
        if unit == 7:
            with attempt_log.open("a") as file:
                file.write("x")
            raise SnapshotError("damaged", **details)
        return unit

    with pytest.raises(SnapshotError) as caught:
        make_tasks().run(work, units(20), Progress("test", 20, ByteAction.READ))
    assert caught.value.document() == SnapshotError("damaged", **details).document()
    assert attempt_log.read_text() == "x", "a final error was retried"


@pytest.mark.parametrize("make_tasks", [shared_processes, shared_spark], ids=["processes", "spark"])
@pytest.mark.parametrize(("failure_count", "succeeds"), [slow(1, True), (3, True), (100, False)])
def test_a_transient_error_of_a_task_is_tried_again(
    failure_count: int, succeeds: bool, make_tasks: MakeTasks, tmp_path: Path
) -> None:
    attempt_log = tmp_path / "tries"
    attempt_log.touch()

    def work(unit: int) -> int:
        if unit == 7 and attempt_log.stat().st_size < failure_count:
            with attempt_log.open("a") as file:
                file.write("x")
            raise StoreError("throttled", path="/p")
        return unit

    if succeeds:
        assert sorted(make_tasks().run(work, units(20), Progress("test", 20, ByteAction.READ))) == list(range(20))
        assert attempt_log.stat().st_size == failure_count
    else:
        with pytest.raises(StoreError) as caught:
            make_tasks().run(work, units(20), Progress("test", 20, ByteAction.READ))
        assert (caught.value.what, caught.value.path) == ("throttled", "/p")


@in_all_forms
def test_rows_go_to_the_partitions_that_they_name(make_tasks: MakeTasks, tmp_path: Path) -> None:
    """Every unit sends its rows once, though partitions are asked for one after the other."""
    sent_log = tmp_path / "sent"

    def make_sender(done: Callable[[int], None]) -> Callable[[Iterable[Sequence[int]]], Iterator[tuple[int, bytes]]]:
        def send(runs: Iterable[Sequence[int]]) -> Iterator[tuple[int, bytes]]:
            for unit in (unit for units in runs for unit in units):
                with sent_log.open("a") as file:
                    file.write(f"{unit}\n")
                for partition in range(3):
                    yield partition, b"%d" % (10 * unit + partition)
                yield 3, b"receipt"
                done(1)

        return send

    shuffled = make_tasks().shuffle(make_sender, units(20), 4, Progress("send", 20, ByteAction.READ))
    assert shuffled.read(3, lambda rows: len(list(rows))) == 20
    sorted_rows = shuffled.write(
        {0: 1, 2: 1},
        lambda partition, rows: iter([(partition, sorted(map(int, rows)))]),
        Progress("write", 2, ByteAction.READ),
    )
    assert sorted(sorted_rows) == [(partition, [10 * unit + partition for unit in range(20)]) for partition in (0, 2)]
    assert sorted(map(int, sent_log.read_text().split())) == list(range(20))


def test_in_process_tasks_close_their_scratch_file(monkeypatch: pytest.MonkeyPatch) -> None:
    open_files: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: open_files.append(unraisable.exc_value))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        shuffled = InProcessTasks().shuffle(
            lambda _: lambda _: iter([(0, b"row")]), units(1), 1, Progress("send", 1, ByteAction.READ)
        )
        assert shuffled.read(0, list) == [b"row"]
        del shuffled
        gc.collect()
    assert open_files == []


def test_steps_import_nothing_of_spark() -> None:
    script = "import sys, rescale.execution.steps, rescale.execution.tasks.in_process; print('pyspark' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert process.stdout == "False\n"
