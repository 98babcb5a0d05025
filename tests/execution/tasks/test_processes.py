"""Tasks in processes of this machine: lost workers are replaced, and no process or scratch folder stays."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random

import pytest

from big_savepoint import write_savepoint
from rescale.execution.meter import METER
from rescale.execution.progress import ByteAction, Progress
from rescale.execution.tasks.processes import ProcessTasks, process_tasks
from rescale.execution.tasks.slices import ATTEMPTS
from rescale.planning.task_sizes import SLICE_BYTES
from rescale.storage.files import owned
from rescale.storage.scratch import MARKER, scratch_directory
from rescale.text.errors import InternalError, RequestError, SnapshotError, StoreError
from support.airflow_server import wait_for
from support.pipeline import execute, execute_without_spark, plan_rescale, shared_processes
from support.watching import Watch

MIB = 1 << 20


@pytest.fixture
def tasks(scratch: Path) -> Iterator[ProcessTasks]:
    """Yield tasks with two new workers, and check that these leave no scratch folder."""
    with process_tasks(2) as two_workers:
        yield two_workers
    assert list(scratch.iterdir()) == []


def progress(total: int = 20) -> Progress:
    return Progress("test", total, ByteAction.READ)


def die_once(mark_file: Path) -> Callable[[int], int]:
    """Return work that kills its worker once, in unit 7, after it has made a scratch file and the file `mark_file`."""

    def work(unit: int) -> int:
        if unit == 7 and not mark_file.exists():
            mark_file.write_text(str(os.getpid()))
            Path(scratch_directory(), "left").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return unit

    return work


@pytest.mark.parametrize("kills_server", [False, True])
def test_task_of_a_lost_worker_is_repeated(kills_server: bool, tasks: ProcessTasks, tmp_path: Path) -> None:
    mark_file, reading_before = tmp_path / "left", METER.read()
    units = [(SLICE_BYTES, i) for i in range(20)]
    if kills_server:
        tasks.run(lambda unit: unit, units[:1], progress())
        assert tasks.pool._server is not None
        tasks.pool._server._process.kill()
    assert sorted(tasks.run(die_once(mark_file), units, progress())) == list(range(20))
    assert mark_file.exists()
    assert METER.workers_since(reading_before).lost_task_count == 1
    assert not Path(f"/proc/{mark_file.read_text()}").exists() or kills_server, "the worker is a zombie"


def test_task_that_always_loses_its_worker_is_a_store_error(tasks: ProcessTasks, tmp_path: Path) -> None:
    death_log = tmp_path / "deaths"

    def work(unit: int) -> int:
        if unit == 7:
            with death_log.open("a") as file:
                file.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return unit

    with pytest.raises(StoreError) as caught:
        tasks.run(work, [(1, i) for i in range(20)], progress())
    assert caught.value.found == "its worker process ended: killed by SIGKILL"
    assert "resume" in str(caught.value.advice)
    assert death_log.stat().st_size == ATTEMPTS
    assert tasks.run(lambda unit: unit, [(1, 5)], progress()) == [5], "new workers replace the lost ones"


def test_no_other_task_begins_after_a_final_error(tasks: ProcessTasks, tmp_path: Path) -> None:
    def work(unit: int) -> None:
        (tmp_path / str(unit)).touch()
        raise SnapshotError(f"damaged: {unit}")

    with pytest.raises(SnapshotError, match="damaged: 0"):
        tasks.run(work, [(SLICE_BYTES, i) for i in range(20)], progress())
    assert len(list(tmp_path.iterdir())) <= 1 + tasks.cores, "one entry is the scratch folder"


def test_result_that_cannot_be_pickled_is_an_internal_error(tasks: ProcessTasks) -> None:
    def work(_: int) -> object:
        return open(os.devnull)

    with pytest.raises(InternalError, match="TextIOWrapper"):
        tasks.run(work, [(1, 1)], progress())


def test_workers_of_an_interrupted_stage_stop_before_the_next_stage(tasks: ProcessTasks, tmp_path: Path) -> None:
    """The file that the worker rewrites stays the same during the next stage."""
    heartbeat_file = tmp_path / "alive"

    class InterruptingProgress(Progress):
        def update(self, done: int) -> None:  # noqa: ARG002
            if heartbeat_file.exists():
                raise KeyboardInterrupt

    def work(_: int) -> None:
        while True:
            heartbeat_file.write_text(str(time.monotonic()))

    with pytest.raises(KeyboardInterrupt):
        tasks.run(work, [(1, 1)], InterruptingProgress("test", 1, ByteAction.READ))
    last_heartbeat = heartbeat_file.read_text()
    assert tasks.run(lambda unit: unit, [(1, 5)], progress()) == [5]
    assert heartbeat_file.read_text() == last_heartbeat


def test_workers_protect_the_directories_that_the_driver_protects(tasks: ProcessTasks, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    owned.protect([str(source)])
    with pytest.raises(RequestError, match="this directory is the source"):
        tasks.run(lambda _: owned.write_new(source / "file", b""), [(1, 1)], progress())
    assert list(source.iterdir()) == []


def test_fork_server_has_a_single_thread(tasks: ProcessTasks) -> None:
    tasks.run(lambda unit: unit, [(1, 1)], progress())
    assert tasks.pool._server is not None
    assert len(list(Path(f"/proc/{tasks.pool._server._process.pid}/task").iterdir())) == 1


def test_progress_is_reported_while_a_task_runs(tasks: ProcessTasks) -> None:
    byte_counts: list[int] = []

    class RecordingProgress(Progress):
        def update(self, done: int) -> None:
            byte_counts.append(done)

    def work(_: int) -> None:
        time.sleep(0.3)

    tasks.run(work, [(10, i) for i in range(12)], RecordingProgress("test", 120, ByteAction.READ))
    assert any(0 < done < 60 for done in byte_counts), byte_counts
    assert sorted(byte_counts) == byte_counts
    assert METER.stages_after(0)[-1].bytes == 120


def test_rows_are_sent_and_read_in_little_memory(tasks: ProcessTasks) -> None:
    """A task that sends 200 MiB and one that reads them hold one row at a time."""

    def make_sender(done: Callable[[int], None]) -> Callable[[Iterable[Sequence[int]]], Iterator[tuple[int, bytes]]]:
        def send(runs: Iterable[Sequence[int]]) -> Iterator[tuple[int, bytes]]:
            for unit in (unit for units in runs for unit in units):
                yield 1, bytes([unit]) * MIB
                done(1)

        return send

    tasks.run(lambda unit: unit, [(1, 1)], progress())
    reading_before = METER.read()
    shuffled = tasks.shuffle(make_sender, [(1, unit) for unit in range(200)], 2, progress())
    assert shuffled.read(0, list) == []
    (received_bytes,) = shuffled.write({1: 200}, lambda _, rows: iter([sum(map(len, rows))]), progress())
    assert received_bytes == 200 * MIB

    def idle_peak_bytes(_: int) -> int:
        from rescale.execution.meter import METER

        return METER.process_since(METER.read()).peak_bytes

    (idle_bytes,) = tasks.run(idle_peak_bytes, [(1, 1)], progress())
    assert METER.workers_since(reading_before).peak_bytes < idle_bytes + 50 * MIB


def test_processes_write_the_same_bytes_as_the_in_process_loop(tmp_path: Path) -> None:
    """This holds even if units are read, and rows arrive, in another order."""
    source, target = tmp_path / "source", tmp_path / "target"
    write_savepoint(source, 4 * MIB, value_size=1000)
    plan = plan_rescale(str(source), str(target), ["3"], max_parallelism=["1000"])
    results = []
    for run in (partial(execute, tasks=shared_processes()), partial(execute_without_spark, order=Random(5))):
        run(plan)
        results.append({path.name: path.read_bytes() for path in target.iterdir()})
        shutil.rmtree(target)
        shutil.rmtree(f"{target}.rescale")
    assert len(results[0]) >= 3
    assert results[0] == results[1]


LONG_RUN = """
import sys, time
from pathlib import Path
from rescale.execution.progress import ByteAction, Progress
from rescale.execution.tasks.processes import process_tasks
from rescale.storage.scratch import scratch_directory

def work(unit):
    Path(scratch_directory(), f"unit-{unit}").touch()
    time.sleep(1000)

with process_tasks(2) as tasks:
    print("begun", flush=True)
    tasks.run(work, [(1, 0), (1, 1)], Progress("test", 2, ByteAction.READ))
"""


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("when", ["while they start", "while they work"])
def test_workers_end_with_the_process_that_started_them(
    when: str, signal_number: signal.Signals, scratch: Path
) -> None:
    """After SIGKILL, their scratch folders stay until the next process removes them."""
    with Watch() as watch:
        environment = {**os.environ, **watch.environment}
        driver = subprocess.Popen(
            [sys.executable, "-c", LONG_RUN], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert driver.stdout is not None
        driver.stdout.readline()
        if when == "while they work":
            wait_for(lambda: len(list(scratch.glob("*/unit-*"))) == 2, "both to work", 120)
        driver.send_signal(signal_number)
        _, stderr = driver.communicate(timeout=120)
        wait_for(lambda: not watch.processes(), "all to end", 60)
    assert driver.returncode == -signal_number or (signal_number is signal.SIGINT and "KeyboardInterrupt" in stderr)
    scratch_folders = list(scratch.iterdir())
    if signal_number is signal.SIGKILL:
        assert all((folder / MARKER).is_file() for folder in scratch_folders)
        with process_tasks(1):
            pass
    assert list(scratch.iterdir()) == []
    assert scratch_folders == [] or signal_number is signal.SIGKILL
    assert stderr.count("Traceback") == (signal_number is signal.SIGINT), stderr
