"""What a step says in numbers of what it did: in this process, and in Spark's workers."""

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

from rescale.execution.job import run_part
from rescale.execution.loop import Loop
from rescale.execution.meter import METER
from rescale.execution.steps import reshuffle_keyed_state
from rescale.execution.tasks import Tasks
from rescale.process import Step
from rescale.storage.s3 import S3Store
from rescale.storage.s3_requests import REQUESTS
from rescale.target.claim import claim
from support.pipeline import plan_rescale, shared_spark
from support.s3 import S3Server
from support.snapshots import directory


@pytest.mark.parametrize("tasks", [Loop, pytest.param(shared_spark, marks=pytest.mark.slow)])
def test_stages_and_records_of_a_step_are_counted_wherever_it_runs(tasks: Callable[[], Tasks], tmp_path: Path) -> None:
    plan = plan_rescale(directory("2-clicks"), str(tmp_path / "target"), max_parallelism=["1000"])
    claim(plan)
    result = tmp_path / "result.json"
    run_part(Step.RESHUFFLE, str(result), partial(reshuffle_keyed_state, plan, tasks()))
    metrics = json.loads(result.read_text())["metrics"]
    stages = metrics["stages"]
    assert {"read and check every record", "write every record under its new key group"} <= {
        one["stage"] for one in stages
    }
    assert all(one["bytes"] > 0 and one["seconds"] > 0 for one in stages)
    assert metrics["bytes"] == sum(one["bytes"] for one in stages)
    assert metrics["records"] > 0
    assert metrics["mb_per_second"] > 0
    assert metrics["retries"] == {"requests": 0, "tasks": 0}
    assert metrics["worst_memory_bytes"]["driver"] > 1_000_000
    if tasks is shared_spark:  # else there may be workers of an earlier test in this process
        assert metrics["worst_memory_bytes"]["workers"] > 1_000_000
    run_part(Step.RESHUFFLE, str(result), partial(reshuffle_keyed_state, plan, tasks()))
    again = json.loads(result.read_text())["metrics"]
    assert (again["stages"], again["records"]) == ([], 0), "what an earlier try did is not done again"


def test_requests_are_counted_by_kind_and_tries(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    bucket = f"counted-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(bucket)
    store, before = S3Store(), METER.own
    uri = f"s3://{bucket}/file"
    store.put(uri, b"content")
    busy = iter([AWSResponse(uri, 503, {}, SimpleNamespace(stream=lambda: [b""]))])

    def once(**_: Any) -> AWSResponse | None:
        return next(busy, None)

    with patch("time.sleep"):
        store._client.meta.events.register_last("before-send.s3.GetObject", once)
        assert store.read_all(uri, 100)[0] == b"content"
    counted = METER.own.since(before)
    assert counted.requests == {"PutObject": 1, "GetObject": 2}
    assert counted.tried_again == 1
    assert REQUESTS.tried_again >= 1
