"""A task that takes a savepoint is tried again, or cleared, while its job comes and goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from rescale.airflow import TakeSavepointOperator
from rescale.airflow.flink.stopping import JobToRestart
from rescale.airflow.hand_overs import Print
from rescale.airflow.steps.retries import TaskEnded
from rescale.flink_rest.client import StopMode
from support.deferring import TaskState, run_operator
from support.http_servers import LocalServer, QuietHandler, serving

FIRST, SECOND = "1" * 32, "2" * 32


class FlinkWithOneName:
    """State of a stand-in for Flink: jobs called `clicks` by id, and the savepoints that were triggered of each."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.savepoints: dict[str, list[str]] = {}
        self.state_backend = "HashMapStateBackend"

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Any:
        """Return the answer to a request; None if Flink does not know the resource."""
        if path == "/jobs/overview":
            return {"jobs": [{"jid": id_, "name": "clicks", "state": state} for id_, state in self.states.items()]}
        job_id, _, rest = path.removeprefix("/jobs/").partition("/")
        state = self.states[job_id]
        if not rest:
            tasks = {"RUNNING": 1}
            vertex = {"id": "a" * 32, "name": "source", "parallelism": 1, "maxParallelism": 128, "tasks": tasks}
            return {"jid": job_id, "name": "clicks", "state": state, "vertices": [vertex]}
        if rest == "config":
            return {"execution-config": {"job-parallelism": 1}}
        if rest == "checkpoints/config":
            return {"state_backend": self.state_backend}
        if method == "POST":
            self.savepoints.setdefault(job_id, []).append(body["triggerId"])
            return {}
        if rest.removeprefix("savepoints/") in self.savepoints.get(job_id, []):
            return {"operation": {"location": f"/savepoints/of-{job_id[0]}"}}
        return {} if rest == "checkpoints" else None


@pytest.fixture
def flink() -> FlinkWithOneName:
    return FlinkWithOneName()


@pytest.fixture
def address(flink: FlinkWithOneName) -> Iterator[str]:
    class Handler(QuietHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            answer = flink.answer(self.command, self.path.partition("?")[0], body)
            self.reply(404 if answer is None else 200, json.dumps({"errors": ["?"]} if answer is None else answer))

    with serving(LocalServer(Handler)) as server:
        yield server.address


def take(address: str, state: TaskState, taking: str = "run on") -> Any:
    operator = TakeSavepointOperator(
        task_id="take", flink=address, job="clicks", savepoints="/savepoints", savepoint_format="native", taking=taking
    )
    return run_operator(operator, "a-run", state)


def test_savepoint_of_a_job_that_was_started_again_can_be_taken(flink: FlinkWithOneName, address: str) -> None:
    state = TaskState()
    flink.states[FIRST] = "RUNNING"
    assert take(address, state)["savepoint"] == "/savepoints/of-1"
    assert take(address, state)["savepoint"] == "/savepoints/of-1", "a retry took another savepoint"
    flink.savepoints.clear()
    flink.states = {FIRST: "FAILED", SECOND: "RUNNING"}
    assert take(address, state)["savepoint"] == "/savepoints/of-2"
    assert [*flink.savepoints] == [SECOND]


def test_job_that_was_started_again_is_not_stopped_by_a_retry(flink: FlinkWithOneName, address: str) -> None:
    stopped = JobToRestart(address, FIRST, "clicks", StopMode.STOP, "/savepoints", 1, Print())
    state = TaskState(rescale_job=msgspec.to_builtins(stopped))
    flink.states = {FIRST: "FINISHED", SECOND: "RUNNING"}
    with pytest.raises(TaskEnded, match="the job has ended without a savepoint of this run"):
        take(address, state, "stop")
    assert not flink.savepoints


def test_native_savepoint_of_rocksdb_is_refused_if_no_checkpoint_shows_where_timers_are(
    flink: FlinkWithOneName, address: str
) -> None:
    flink.states[FIRST], flink.state_backend = "RUNNING", "EmbeddedRocksDBStateBackend"
    with pytest.raises(TaskEnded, match="it is unknown whether a native savepoint of this job would be complete"):
        take(address, TaskState())
    assert not flink.savepoints
