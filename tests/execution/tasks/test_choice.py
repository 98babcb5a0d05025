"""Where a step's work is done: little of it in its process, and more by a Spark that starts once, when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest

from rescale.execution.progress import ByteAction, Progress
from rescale.execution.tasks.choice import TasksOnDemand, step_tasks
from rescale.execution.tasks.in_process import Loop
from rescale.execution.tasks.protocol import Weighed
from rescale.planning.little_work import LITTLE_BYTES, LITTLE_UNITS

MUCH = [(LITTLE_BYTES + 1, 5)]
MANY = [(0, 5)] * (LITTLE_UNITS + 1)
LITTLE = [(LITTLE_BYTES, 5)]


class Started:
    """Counts how often Spark would start, and gives a loop that has 40 cores instead."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> Loop:
        self.times += 1
        return Loop(40)


def run(tasks: TasksOnDemand, units: Weighed[int]) -> list[int]:
    return tasks.run(lambda unit: unit + 1, units, Progress("test", 1, ByteAction.READ))


def send(tasks: TasksOnDemand, units: Weighed[int]) -> list[bytes]:
    def make_sender(_: Callable[[int], None]) -> Callable[[Iterable[Sequence[int]]], Iterator[tuple[int, bytes]]]:
        return lambda runs: ((0, b"%d" % unit) for some in runs for unit in some)

    shuffled = tasks.shuffle(make_sender, units, 1, Progress("test", 1, ByteAction.READ))
    return shuffled.read(0, list)


@pytest.mark.parametrize("little_here", [True, False])
def test_nothing_to_do_starts_no_spark(little_here: bool) -> None:
    started = Started()
    tasks = TasksOnDemand(started, little_here, None)
    assert run(tasks, []) == send(tasks, []) == []
    assert started.times == 0


@pytest.mark.parametrize(("little_here", "times"), [(True, 0), (False, 1)])
def test_little_to_do_starts_none_where_the_driver_may_do_it(little_here: bool, times: int) -> None:
    started = Started()
    tasks = TasksOnDemand(started, little_here, 2)
    assert tasks.cores == 2
    assert run(tasks, LITTLE) == run(tasks, LITTLE) == [6]
    assert send(tasks, LITTLE) == [b"5"]
    assert started.times == times


@pytest.mark.parametrize("units", [MUCH, MANY], ids=["bytes", "units"])
def test_more_starts_one_for_all_that_comes(units: Weighed[int]) -> None:
    started = Started()
    tasks = TasksOnDemand(started, True, 2)
    assert set(run(tasks, LITTLE)) == set(run(tasks, units)) == set(run(tasks, units)) == {6}
    assert set(send(tasks, units)) == {b"5"}
    assert started.times == 1
    assert tasks.cores == 40
    assert tasks._for(LITTLE).cores == 40, "it is there anyway"


@pytest.mark.parametrize(("cores", "times"), [(2, 0), (None, 1)], ids=["on this machine", "on a cluster"])
def test_what_threads_do_as_well_needs_none_on_this_machine(cores: int | None, times: int) -> None:
    started = Started()
    tasks = TasksOnDemand(started, True, cores)
    assert set(tasks.run(lambda unit: unit + 1, MUCH, Progress("test", 1, ByteAction.READ), threads_will_do=True)) == {
        6
    }
    assert started.times == times
    run(tasks, MUCH)
    assert started.times == 1
    assert tasks._for(MUCH, threads_will_do=True).cores == 40, "it is there anyway"


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[3]", 3), ("local[3,4]", 3)])
def test_a_local_master_says_its_cores_and_needs_no_spark_for_little(
    master: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with step_tasks("test", master) as tasks:
        assert tasks.cores == cores
        assert run(tasks, LITTLE) == [6]


@pytest.mark.parametrize(("of_the_driver", "here"), [(True, True), (False, False)])
@pytest.mark.parametrize("master", [None, "k8s://https://cluster", "local-cluster[2,1,1024]"])
def test_on_a_cluster_executors_do_what_is_not_the_drivers(master: str | None, of_the_driver: bool, here: bool) -> None:
    with step_tasks("test", master, of_the_driver=of_the_driver) as tasks:
        assert tasks.little_here is here
        assert tasks.known_cores is None
