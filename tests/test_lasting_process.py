"""The process that carries out one run after another: workers start once, an error ends only its own run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.lasting_process import LastingProcess, Order
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.runstate.places import places_of
from rescale.runstate.publication import publish
from rescale.runstate.step import Step
from rescale.text.errors import RequestError, StoreError
from support import snapshots
from support.airflow_server import wait_for
from support.faults import Faults
from support.pipeline import claimed_plan, plan_rescale
from support.watching import Watch

SOURCE = snapshots.directory("2-clicks")


def claimed(target: Path) -> Plan:
    return claimed_plan(SOURCE, str(target), ["3"], max_parallelism=["1000"])


def kill_process(process: LastingProcess) -> None:
    assert process._process is not None
    process._process.kill()
    process._process.wait()


def order_of(plan: Plan, result: Path) -> Order:
    return Order(places_of(plan).plan, Proof.RECORDS, str(result / "step" / "result.json"))


@pytest.mark.slow
def test_workers_stay_for_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = tmp_path / "hook"
    hook.mkdir()
    for name, value in Faults(str(tmp_path / "calls")).environment(hook).items():  # even a little work starts workers
        monkeypatch.setenv(name, value)
    process_ids = []
    with Watch() as watch, monkeypatch.context() as patched:
        for name, value in watch.environment.items():
            patched.setenv(name, value)
        with LastingProcess("local[2]", [].append, sends_ticks=False) as process:
            for number in range(2):
                plan = claimed(tmp_path / f"target-{number}")
                process.carry_out(order_of(plan, tmp_path / f"result-{number}"))
                publish(plan)
                validate_published(SOURCE, plan.target, InProcessTasks())
                process_ids.append({pid for pid, line in watch.running_lines().items() if "worker_server" in line})
        wait_for(lambda: not watch.processes(), "all to end", 60)
    assert process_ids[0] == process_ids[1]
    assert len(process_ids[0]) == 3, "two workers and their server"


def test_all_lines_of_a_run_come_before_its_end(tmp_path: Path) -> None:
    """Later lines would come below the run's progress bar, or into it."""
    lines: list[str] = []

    def say(line: str) -> None:
        time.sleep(0.2)  # the process has answered before the first line is passed on
        lines.append(line)

    with LastingProcess("local[2]", [].append, sends_ticks=True) as process:
        process.carry_out(order_of(claimed(tmp_path / "target"), tmp_path / "result"), say, lambda _: None)
        assert any(line.startswith("validate: ") and " read on both sides in " in line for line in lines), lines


def test_a_run_that_fails_does_not_end_the_process(tmp_path: Path) -> None:
    messages: list[str] = []
    with LastingProcess("local[2]", [].append, sends_ticks=False) as process:
        unstored = plan_rescale(SOURCE, str(tmp_path / "nobodys"), ["3"])
        with pytest.raises(RequestError, match="the plan does not exist"):
            process.carry_out(order_of(unstored, tmp_path / "result-0"))
        plan = claimed(tmp_path / "target")
        process.carry_out(order_of(plan, tmp_path / "result-1"), messages.append)
    assert publish(plan).target == plan.target
    assert messages, "a run's own listener gets its messages"


def test_a_process_that_dies_is_worth_another_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{Step.ROUNDS.value}.py").write_text("raise SystemExit(9)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with (
        LastingProcess("local[2]", [].append, sends_ticks=False) as process,
        pytest.raises(StoreError) as caught,
    ):
        process.carry_out(Order(str(tmp_path / "plan"), Proof.RECORDS, str(tmp_path / "result.json")))
    assert caught.value.found == "exit code 9"


@pytest.mark.parametrize("end", [LastingProcess.end, kill_process])
def test_another_process_carries_out_the_run_after_one_that_ended(
    end: Callable[[LastingProcess], None], tmp_path: Path
) -> None:
    with LastingProcess("local[2]", [].append) as process:
        process.begin()
        end(process)
        plan = claimed(tmp_path / "target")
        process.move(plan, Proof.RECORDS)
    assert publish(plan).target == plan.target
