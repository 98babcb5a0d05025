"""A canonical savepoint that Flink cannot take is refused while the job runs, and is not tried again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from oracle.distribution import LINES
from rescale.airflow.flink.inspection import inspect_job
from rescale.airflow.flink.stopping import JobToRestart, begin_savepoint
from rescale.airflow.hand_overs import Print
from rescale.airflow.job.canonical_savepoint import refuse_canonical
from rescale.airflow.job.job_operators import TakeSavepoint
from rescale.airflow.steps.retries import TaskEnded
from rescale.flink.metadata.properties import SnapshotType
from rescale.flink_rest.client import Flink, SavepointFormat, StopMode
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import RequestError
from support.deferring import run_operator
from support.session_cluster import SessionCluster, session_cluster, wait_until

BEFORE = JobToRestart("http://flink", "1" * 32, "clicks", StopMode.RUN_ON, "/save", 2, Print())
NATIVE = msgspec.structs.replace(BEFORE, savepoint_format=SavepointFormat.NATIVE)

FAILED = "org.apache.flink.runtime.checkpoint.CheckpointException: Checkpoint Coordinator is suspending."
ASYNCHRONOUS = (
    "java.io.IOException: Could not perform checkpoint 6 for operator visits (2/2)#0.\n"
    "Caused by: java.lang.UnsupportedOperationException: Not supported yet.\n"
)
FORST = (
    "java.lang.Exception: Error while triggering checkpoint 5 for Source (1/2)#0\n"
    "Caused by: java.lang.IllegalStateException: Configured state backend (ForStStateBackend{}) does not support "
    "CANONICAL savepoints\n"
)


def triggers_after_a_failure(monkeypatch: pytest.MonkeyPatch, before: JobToRestart, why: str) -> list[str]:
    """Return the savepoints that Flink is asked for after the first savepoint of a run and its job have failed."""
    polled: list[str] = []
    triggered: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if request.method == "POST":
            triggered.append(path)
        elif "/savepoints/" in path:
            polled.append(path)
            if path != polled[0]:
                return httpx.Response(404, json={"errors": ["There is no savepoint operation"]})
            return httpx.Response(200, json={"operation": {"failure-cause": {"stack-trace": FAILED}}})
        elif path.endswith("/exceptions"):
            return httpx.Response(200, json={"exceptionHistory": {"entries": [{"stacktrace": why}]}})
        vertex = {"id": "0" * 32, "name": "visits", "parallelism": 2, "maxParallelism": 128, "tasks": {"RUNNING": 2}}
        job = {"jid": before.job_id, "name": before.name, "state": "RUNNING", "vertices": [vertex]}
        return httpx.Response(200, json=job)

    opened = Flink("http://flink", transport=httpx.MockTransport(answer))
    monkeypatch.setattr("rescale.airflow.flink.stopping.open_flink", lambda _: opened)
    begin_savepoint(before, "run")
    return triggered


@pytest.mark.parametrize("why", [ASYNCHRONOUS, FORST], ids=["asynchronous state", "ForSt"])
def test_canonical_savepoint_is_not_repeated_if_flink_cannot_take_it(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    with pytest.raises(RequestError, match="Flink cannot take a canonical savepoint of this job") as caught:
        triggers_after_a_failure(monkeypatch, BEFORE, why)
    assert 'choose "native" as the format of the savepoint' in str(caught.value.advice)


@pytest.mark.parametrize(
    ("before", "why"),
    [(BEFORE, "java.lang.OutOfMemoryError: Java heap space"), (NATIVE, ASYNCHRONOUS)],
    ids=["other trouble", "native"],
)
def test_savepoint_is_repeated_after_another_failure(
    monkeypatch: pytest.MonkeyPatch, before: JobToRestart, why: str
) -> None:
    assert triggers_after_a_failure(monkeypatch, before, why) == [f"/jobs/{before.job_id}/savepoints"]


@pytest.fixture(scope="module")
def flink_2() -> Iterator[SessionCluster]:
    with session_cluster(LINES["2"]) as cluster:
        yield cluster


def look(cluster: SessionCluster, job_id: str, taking: StopMode, savepoint_format: str) -> dict[str, Any]:
    directory = str(cluster.folder / "savepoints")
    before = inspect_job(
        cluster.address, job_id, StopMode.RUN_ON, directory, Print(), SavepointFormat(savepoint_format)
    )
    document: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(before, taking=taking))
    return document


def has_failed(cluster: SessionCluster, job_id: str) -> bool:
    """Return whether Flink reports the failure, which may take seconds (`web.refresh-interval`)."""
    with cluster.open() as flink:
        return flink.failure_messages(job_id) is not None


@pytest.mark.parametrize(
    ("backend", "taking"), [("hashmap", StopMode.STOP), ("rocksdb", StopMode.RUN_ON), ("forst", StopMode.STOP)]
)
@pytest.mark.slow
def test_flink_takes_only_a_native_savepoint_of_asynchronous_state(
    flink_2: SessionCluster, backend: str, taking: StopMode
) -> None:
    place = (flink_2.folder / "checkpoints").as_uri()
    options = {"state.backend.type": backend, "execution.checkpointing.dir": place}
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "100ms"}
    job_id = flink_2.run(
        2, main="AsyncCounts", options={**options, **restarts, "execution.checkpointing.interval": "1s"}
    )
    with (
        flink_2.open() as flink,
        pytest.raises(RequestError, match="Flink cannot take a canonical savepoint of this job") as caught,
    ):
        refuse_canonical(flink, flink_2.job(job_id))
    assert str(caught.value.found) in {"asynchronous state of counts", "its state backend is ForStStateBackend"}
    canonical = TakeSavepoint(task_id="take", old_job_document=look(flink_2, job_id, taking, "canonical"))
    with pytest.raises(TaskEnded, match="Flink could not take the savepoint"):
        run_operator(canonical, backend)
    wait_until(lambda: has_failed(flink_2, job_id) and flink_2.job(job_id).runs, "the job to fail, and to run again")
    with pytest.raises(TaskEnded, match="Flink cannot take a canonical savepoint of this job"):
        run_operator(canonical, backend)
    native = run_operator(
        TakeSavepoint(task_id="take", old_job_document=look(flink_2, job_id, taking, "native")), "native"
    )
    assert open_snapshot(native["savepoint"]).type is SnapshotType.NATIVE_SAVEPOINT
    flink_2.clear()
