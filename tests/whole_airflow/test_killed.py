"""Workers are killed while they move state: the run goes on by itself, without writing finished files again.

A busy machine costs a task a retry now and then, so there may be more retries than killed tasks.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from big_savepoint import write_savepoint
from rescale.demo.airflow_home import DAG_ID
from rescale.runstate.step import Step
from support.airflow_server import AirflowServer, Run, request, wait_for
from support.snapshots import directory

pytestmark = pytest.mark.slow


def process_of(run: Run, task_id: str) -> psutil.Process:
    """Return the process that executes the task; its parent supervises it."""
    return psutil.Process(run.wait_for_task(task_id, "running")["pid"])


def wait_for_workers(task: psutil.Process) -> None:
    """Wait until the task's step has workers, so that it is in the middle of its work."""

    def has_workers() -> bool:
        return any("worker_server" in " ".join(child.cmdline()) for child in task.children(recursive=True))

    wait_for(has_workers, "workers to be there")


def wait_for_step(task: psutil.Process, step: Step) -> None:
    """Wait until the step has a process, with or without workers."""
    wait_for(lambda: any(step in child.cmdline() for child in task.children()), f"the process of {step}", period=0.05)


def state_files(target: Path) -> dict[str, tuple[int, int, int]]:
    """Return inode, modification time and size of each file by name, which change if a file is written again."""
    files = [path for path in target.glob("*") if path.name != "_metadata"]
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns, path.stat().st_size) for path in files}


@pytest.fixture(scope="module")
def without_supervisor(airflow: AirflowServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """Return a run that lost a task and its supervisor, which Airflow notices after two minutes; and its target."""
    folder = tmp_path_factory.mktemp("without-supervisor")
    source, target = folder / "savepoint", folder / "rescaled"
    write_savepoint(source, 300_000_000)
    run = airflow.trigger(**request(str(source), str(target), parallelism=3, max_parallelism=1000))
    task = process_of(run, "reshuffle_keyed_state")
    wait_for_workers(task)
    for process in (task.parent(), task):
        assert process
        process.kill()
    return run, target


@pytest.mark.usefixtures("without_supervisor")
def test_run_whose_tasks_are_killed_goes_on_where_it_was(airflow: AirflowServer, tmp_path: Path) -> None:
    source, target = tmp_path / "savepoint", tmp_path / "rescaled"
    write_savepoint(source, 300_000_000, elements=100)
    run = airflow.trigger(**request(str(source), str(target), parallelism=24, max_parallelism=1000))
    redistributing = process_of(run, "redistribute_operator_state")
    wait_for_step(redistributing, Step.REDISTRIBUTE)
    redistributing.kill()
    reshuffling = process_of(run, "reshuffle_keyed_state")
    wait_for(lambda: len(state_files(target)) > 2, "the first files", period=0.01)
    first_files = state_files(target)
    os.kill(reshuffling.pid, signal.SIGKILL)
    validating = process_of(run, "validate")
    wait_for_workers(validating)
    os.kill(validating.pid, signal.SIGKILL)
    assert run.end() == "success", run.states()
    tasks = run.tasks()
    for task_id in ("reshuffle_keyed_state", "redistribute_operator_state", "validate"):
        assert tasks[task_id]["try_number"] >= 2
    finished = state_files(target)
    assert len(first_files) < len(finished) == 24
    assert first_files == {name: finished[name] for name in first_files}


def test_run_whose_tasks_are_all_killed_after_their_work_publishes(airflow: AirflowServer, tmp_path: Path) -> None:
    """The result gets one event."""
    target, ours = tmp_path / "rescaled", tmp_path / "rescaled.rescale"
    conf = request(directory("2-clicks"), str(target), parallelism=3)
    run = airflow.trigger_dag(DAG_ID, conf, dag_run_id="lingers-all-1")
    finished_tasks = {
        "inspect": lambda: True,
        "plan": lambda: (ours / "claim").exists(),
        "reshuffle_keyed_state": lambda: (ours / f"result-{Step.RESHUFFLE}.json").exists(),
        "redistribute_operator_state": lambda: (ours / f"result-{Step.REDISTRIBUTE}.json").exists(),
        "validate": lambda: (ours / f"result-{Step.VALIDATE}.json").exists(),
        "publish": lambda: (target / "_metadata").exists(),
        "announce": lambda: True,
        "end": lambda: True,
    }
    for task_id, has_done in finished_tasks.items():
        task = process_of(run, task_id)
        wait_for(has_done, f"the work of {task_id}", period=0.01)
        task.kill()
    assert run.end() == "success", run.states()
    tasks = run.tasks()
    assert all(tasks[task_id]["try_number"] >= 2 for task_id in finished_tasks), tasks
    _, document = airflow.api("GET", "/assets/events?limit=1000")
    assert [event["extra"]["uri"] for event in document["asset_events"]].count(str(target)) == 1


def test_question_is_asked_though_its_task_is_killed(airflow: AirflowServer, tmp_path: Path) -> None:
    target = tmp_path / "rescaled"
    conf = {**request(directory("2-clicks"), str(target), parallelism=3), "require_approval": True}
    run = airflow.trigger_dag(DAG_ID, conf, dag_run_id="waits-approve-killed")
    process_of(run, "approve").kill()
    run.question()
    run.answer("Approve")
    assert run.end() == "success", run.states()
    assert run.task("approve")["try_number"] >= 2


def test_run_that_loses_a_task_with_its_supervisor_publishes(without_supervisor: tuple[Run, Path]) -> None:
    run, target = without_supervisor
    assert run.end() == "success", run.states()
    assert run.task("reshuffle_keyed_state")["try_number"] >= 2
    assert (target / "_metadata").exists()
