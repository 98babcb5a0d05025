"""Figures of a step, measured in the driver and in its workers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from botocore.awsrequest import AWSResponse

from rescale.execution.job import run_step_of_job
from rescale.execution.meter import METER, StepCounters
from rescale.execution.progress import ByteAction, Progress
from rescale.execution.steps import reshuffle_keyed_state
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.execution.tasks.protocol import Tasks
from rescale.execution.tasks.spark.task_meter import count_into
from rescale.runstate.step import Step
from rescale.storage.s3.s3_client import client_for
from rescale.storage.s3.s3_requests import REQUESTS
from rescale.storage.s3.s3_store import S3Store
from support.needs import skip_in_any_case
from support.pipeline import claimed_plan, shared_processes, shared_spark
from support.s3 import S3Server
from support.slow import slow
from support.snapshots import directory

LARGE_BYTES = 200_000_000
"""Number of bytes: far more than the memory of a process varies by itself."""


@pytest.mark.parametrize("make_tasks", [InProcessTasks, shared_processes, slow(shared_spark)])
def test_stages_and_records_of_a_step_are_counted_in_all_kinds_of_tasks(
    make_tasks: Callable[[], Tasks], tmp_path: Path
) -> None:
    plan = claimed_plan(directory("2-clicks"), str(tmp_path / "target"), max_parallelism=["1000"])
    result = tmp_path / "result.json"
    run_step_of_job(Step.RESHUFFLE, str(result), partial(reshuffle_keyed_state, plan, make_tasks()))
    metrics = json.loads(result.read_text())["metrics"]
    stages = metrics["stages"]
    assert {"read and check every record", "write every record under its new key group"} <= {
        stage["stage"] for stage in stages
    }
    assert all(stage["bytes"] > 0 and stage["seconds"] > 0 for stage in stages)
    assert metrics["bytes"] == sum(stage["bytes"] for stage in stages)
    assert metrics["records"] > 0
    assert metrics["mb_per_second"] > 0
    assert metrics["retries"] == {"requests": 0, "tasks": 0}
    assert metrics["worst_memory_bytes"]["driver"] > 1_000_000
    workers = metrics["worst_memory_bytes"]["workers"]
    assert workers == 0 if make_tasks is InProcessTasks else workers > 1_000_000
    run_step_of_job(Step.RESHUFFLE, str(result), partial(reshuffle_keyed_state, plan, make_tasks()))
    second_metrics = json.loads(result.read_text())["metrics"]
    assert (second_metrics["stages"], second_metrics["records"]) == ([], 0), (
        "the work of an earlier attempt is not repeated"
    )


@pytest.fixture
def resettable_peak_memory() -> None:
    """Skip the test on systems where a process cannot reset its peak memory."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        skip_in_any_case(f"a process cannot forget how much memory it once had: {error}")


@pytest.mark.usefixtures("resettable_peak_memory")
def test_peak_memory_of_a_step_excludes_that_of_an_earlier_step(tmp_path: Path) -> None:
    """A measurement around both steps includes the memory of both."""
    result, earlier_reading = str(tmp_path / "result.json"), METER.read()

    def driver_peak_bytes(body: Callable[[], dict[str, Any]]) -> int:
        run_step_of_job(Step.RESHUFFLE, result, body)
        return int(json.loads(Path(result).read_text())["metrics"]["worst_memory_bytes"]["driver"])

    large_peak, small_peak = driver_peak_bytes(lambda: {"much": len(b"1" * LARGE_BYTES)}), driver_peak_bytes(dict)
    assert small_peak < large_peak - LARGE_BYTES // 2
    assert METER.process_since(earlier_reading).peak_bytes >= large_peak


@pytest.mark.usefixtures("resettable_peak_memory")
def test_peak_memory_of_a_task_excludes_that_of_an_earlier_task_of_its_worker() -> None:
    counters: list[StepCounters] = []
    total: Any = SimpleNamespace(add=counters.append)
    for size in (LARGE_BYTES, 0):
        with count_into(total):
            assert len(b"1" * size) == size
    assert counters[1].peak_bytes < counters[0].peak_bytes - LARGE_BYTES // 2


@pytest.mark.usefixtures("resettable_peak_memory")
@pytest.mark.parametrize("make_tasks", [shared_processes, slow(shared_spark)])
def test_peak_memory_of_workers_in_a_step_excludes_that_of_an_earlier_step(
    make_tasks: Callable[[], Tasks], tmp_path: Path
) -> None:
    """Both steps have the same worker processes."""
    tasks, peaks = make_tasks(), []
    for size in (LARGE_BYTES, 1):
        result = tmp_path / f"{size}.json"
        units = [(1, size)] * tasks.cores

        def body(units: list[tuple[int, int]] = units) -> dict[str, Any]:
            return {
                "sizes": tasks.run(
                    lambda unit: len(b"1" * unit), units, Progress("fill memory", len(units), ByteAction.READ)
                )
            }

        run_step_of_job(Step.RESHUFFLE, str(result), body)
        peaks.append(json.loads(result.read_text())["metrics"]["worst_memory_bytes"]["workers"])
    assert peaks[1] < peaks[0] - LARGE_BYTES // 2


def test_requests_are_counted_by_kind_and_retries_apart(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    bucket = f"counted-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(bucket)
    s3.declare(f"s3://{bucket}")
    store, reading_before = S3Store(client_for()), METER.read()
    uri = f"s3://{bucket}/file"
    store.put(uri, b"content")
    busy_answers = iter([AWSResponse(uri, 503, {}, SimpleNamespace(stream=lambda: [b""]))])

    def answer_busy_once(**_: Any) -> AWSResponse | None:
        return next(busy_answers, None)

    with patch("time.sleep"):
        store._client.meta.events.register_last("before-send.s3.GetObject", answer_busy_once)
        assert store.read_all(uri, 100)[0] == b"content"
    counters = METER.process_since(reading_before)
    assert counters.requests_by_kind == {"PutObject": 1, "GetObject": 2}
    assert counters.repeat_count == 1
    assert REQUESTS.repeat_count >= 1
