"""The pool hands out tasks, tries failed ones again, and keeps its workers for the next stage."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rescale.execution.meter import METER
from rescale.execution.progress import ByteAction, Progress
from rescale.execution.tasks.slices import ATTEMPTS, RESUME_ADVICE
from rescale.execution.tasks.worker_pool import WorkerPool
from rescale.text.errors import SnapshotError, StoreError

Done = Callable[[int], None]


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    pool = WorkerPool(2, {})
    yield pool
    pool.close()


def progress() -> Progress:
    return Progress("test", 100, ByteAction.READ)


def worker_ids(pool: WorkerPool, task_count: int) -> set[int]:
    """Return the ids of the workers that run some tasks."""
    return set(pool.run(lambda _, __: os.getpid(), range(task_count), progress()))


def test_results_are_in_the_order_of_the_tasks_and_no_more_workers_run_than_allowed(pool: WorkerPool) -> None:
    def square_task(number: int, done: Done) -> tuple[int, int]:
        done(number)
        return number * number, os.getpid()

    results = pool.run(square_task, range(20), progress())
    assert [square for square, _ in results] == [number * number for number in range(20)]
    workers = {pid for _, pid in results}
    assert len(workers) <= 2
    assert os.getpid() not in workers
    assert METER.stages_after(0)[-1].bytes == sum(range(20))


def test_workers_are_kept_for_the_next_stage_until_the_pool_is_closed(pool: WorkerPool) -> None:
    first_ids, second_ids = worker_ids(pool, 10), worker_ids(pool, 10)
    assert second_ids <= first_ids
    pool.close()
    assert not first_ids & worker_ids(pool, 1), "a closed pool starts new workers"


def test_no_task_begins_after_the_last_result(pool: WorkerPool) -> None:
    results = pool.run(lambda number, _: number, range(20), progress(), lambda number: number == 3)
    assert results[:4] == [0, 1, 2, 3]
    assert results[-1] is None


@pytest.mark.parametrize("failure_count", [1, ATTEMPTS - 1, ATTEMPTS])
def test_task_is_tried_again_until_its_last_attempt(pool: WorkerPool, tmp_path: Path, failure_count: int) -> None:
    def fail_some_times(number: int, _: Done) -> int:
        attempt_log = tmp_path / str(number)
        attempt_log.touch()
        if number == 4 and attempt_log.stat().st_size < failure_count:
            with attempt_log.open("a") as file:
                file.write("x")
            raise StoreError("the store answers nothing")
        return number

    reading_before = METER.read()
    if failure_count < ATTEMPTS:
        assert pool.run(fail_some_times, range(8), progress()) == list(range(8))
        assert METER.workers_since(reading_before).lost_task_count == failure_count
    else:
        with pytest.raises(StoreError, match="the store answers nothing") as caught:
            pool.run(fail_some_times, range(8), progress())
        assert caught.value.advice == RESUME_ADVICE
    assert (tmp_path / "4").stat().st_size == failure_count


def test_final_error_is_not_tried_again(pool: WorkerPool, tmp_path: Path) -> None:
    def fail(_: int, __: Done) -> None:
        with (tmp_path / "attempts").open("a") as file:
            file.write("x")
        raise SnapshotError("damaged")

    with pytest.raises(SnapshotError, match="damaged"):
        pool.run(fail, [0], progress())
    assert (tmp_path / "attempts").read_text() == "x"


def test_server_that_cannot_start_is_a_store_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = WorkerPool(1, {})
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(StoreError, match="worker processes do not start") as caught:
        worker_ids(pool, 1)
    pool.close()
    assert "free memory" in str(caught.value.advice)
