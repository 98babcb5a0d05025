"""Little work is done in the process of the step, and more by Spark, which starts once and only when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest

from rescale.execution.progress import ByteAction, Progress
from rescale.execution.tasks.choice import TasksOnDemand, step_tasks
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.execution.tasks.protocol import Weighed
from rescale.planning.little_work import LITTLE_BYTES, LITTLE_UNITS

MUCH = [(LITTLE_BYTES + 1, 5)]
MANY = [(0, 5)] * (LITTLE_UNITS + 1)
LITTLE = [(LITTLE_BYTES, 5)]


class CountedStarts:
    """Counts how often Spark would be started, and returns an in-process loop with 40 cores instead."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> InProcessTasks:
        self.count += 1
        return InProcessTasks(40)


def run(tasks: TasksOnDemand, units: Weighed[int]) -> list[int]:
    return tasks.run(lambda unit: unit + 1, units, Progress("test", 1, ByteAction.READ))


def send(tasks: TasksOnDemand, units: Weighed[int]) -> list[bytes]:
    def make_sender(_: Callable[[int], None]) -> Callable[[Iterable[Sequence[int]]], Iterator[tuple[int, bytes]]]:
        return lambda runs: ((0, b"%d" % unit) for units in runs for unit in units)

    shuffled = tasks.shuffle(make_sender, units, 1, Progress("test", 1, ByteAction.READ))
    return shuffled.read(0, list)


@pytest.mark.parametrize("does_little_work", [True, False])
def test_no_units_start_no_spark(does_little_work: bool) -> None:
    starts = CountedStarts()
    tasks = TasksOnDemand(starts, does_little_work, None)
    assert run(tasks, []) == send(tasks, []) == []
    assert starts.count == 0


@pytest.mark.parametrize(("does_little_work", "start_count"), [(True, 0), (False, 1)])
def test_little_work_starts_no_spark_if_the_driver_may_do_it(does_little_work: bool, start_count: int) -> None:
    starts = CountedStarts()
    tasks = TasksOnDemand(starts, does_little_work, 2)
    assert tasks.cores == 2
    assert run(tasks, LITTLE) == run(tasks, LITTLE) == [6]
    assert send(tasks, LITTLE) == [b"5"]
    assert starts.count == start_count


@pytest.mark.parametrize("units", [MUCH, MANY], ids=["bytes", "units"])
def test_much_work_starts_one_spark_for_all_later_work(units: Weighed[int]) -> None:
    starts = CountedStarts()
    tasks = TasksOnDemand(starts, True, 2)
    assert set(run(tasks, LITTLE)) == set(run(tasks, units)) == set(run(tasks, units)) == {6}
    assert set(send(tasks, units)) == {b"5"}
    assert starts.count == 1
    assert tasks.cores == 40
    assert tasks._tasks_for(LITTLE).cores == 40, "Spark already runs"


@pytest.mark.parametrize(("cores", "start_count"), [(2, 0), (None, 1)], ids=["on this machine", "on a cluster"])
def test_work_that_threads_can_do_starts_no_spark_with_a_local_master(cores: int | None, start_count: int) -> None:
    starts = CountedStarts()
    tasks = TasksOnDemand(starts, True, cores)
    assert set(tasks.run(lambda unit: unit + 1, MUCH, Progress("test", 1, ByteAction.READ), threads_suffice=True)) == {
        6
    }
    assert starts.count == start_count
    run(tasks, MUCH)
    assert starts.count == 1
    assert tasks._tasks_for(MUCH, threads_suffice=True).cores == 40, "Spark already runs"


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[3]", 3), ("local[3,4]", 3)])
def test_little_work_with_a_local_master_needs_no_java(
    master: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with step_tasks("test", master) as tasks:
        assert tasks.cores == cores
        assert run(tasks, LITTLE) == [6]


@pytest.mark.parametrize(("on_driver", "runs_in_driver"), [(True, True), (False, False)])
@pytest.mark.parametrize("master", [None, "k8s://https://cluster", "local-cluster[2,1,1024]"])
def test_little_work_on_a_cluster_runs_in_the_driver_only_if_allowed(
    master: str | None, on_driver: bool, runs_in_driver: bool
) -> None:
    with step_tasks("test", master, on_driver=on_driver) as tasks:
        assert tasks.does_little_work is runs_in_driver
        assert tasks.known_cores is None
