"""The example that scales a job out asks how busy the job is. It starts the job again only if none of its name runs."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from support.http_servers import LocalServer, QuietHandler, serving

EXAMPLE = Path(__file__).parents[3] / "dags" / "examples" / "scale_out.py"


@pytest.fixture(scope="module")
def dag() -> Any:
    return runpy.run_path(str(EXAMPLE))["dag"]


@pytest.mark.parametrize(
    ("busy_times", "shape"),
    [
        (["NaN", 950.0], {"old": 2, "new": 4}),  # the first vertex is a legacy source (`SourceStreamTask`)
        ([950.0, "NaN"], {"old": 2, "new": 4}),
        ([100.0, "NaN"], {}),
        (["NaN"], {}),
        ([], {}),  # Flink has fetched no metrics yet
    ],
)
def test_job_with_a_legacy_source_is_scaled_out_when_it_is_busy(
    busy_times: list[Any], shape: dict[str, int], dag: Any
) -> None:
    class Handler(QuietHandler):
        def answer(self) -> None:
            job = {"jid": "1" * 32, "name": "clicks", "state": "RUNNING"}
            vertices = [{"id": str(number), "parallelism": 2} for number in range(len(busy_times) or 1)]
            if self.path == "/jobs/overview":
                document: Any = {"jobs": [job]}
            elif self.path.endswith("&agg=max"):
                number = int(self.path.split("/")[4])
                document = [{"id": "busyTimeMsPerSecond", "max": busy} for busy in busy_times[number : number + 1]]
            else:
                document = {**job, "vertices": vertices}
            self.reply(200, json.dumps(document))

    with serving(LocalServer(Handler)) as server:
        params = {"flink": server.address, "job": "clicks", "busy_ms": 900}
        assert dag.get_task("shape_if_busy").python_callable(params) == shape


@pytest.mark.parametrize(
    ("name", "state", "is_refused"),
    [
        ("clicks", "RESTARTING", True),  # the new job has too few slots, and the task that started it gave up
        ("clicks", "RUNNING", True),
        ("clicks", "FAILED", False),
        ("views", "RUNNING", False),
    ],
)
def test_job_that_has_not_ended_is_not_started_again(name: str, state: str, is_refused: bool, dag: Any) -> None:
    class Handler(QuietHandler):
        def answer(self) -> None:
            self.reply(200, json.dumps({"jobs": [{"jid": "1" * 32, "name": name, "state": state}]}))

    refuse = dag.get_task("refuse_second_job").python_callable
    with serving(LocalServer(Handler)) as server:
        params = {"flink": server.address, "job": "clicks"}
        if is_refused:
            with pytest.raises(RuntimeError, match="has not ended"):
                refuse(params)
        else:
            refuse(params)


def test_check_comes_between_the_failure_and_the_start(dag: Any) -> None:
    check, start_again = dag.get_task("refuse_second_job"), dag.get_task("start_again")
    assert (check.trigger_rule, check.upstream_task_ids) == ("one_failed", {"start"})
    assert start_again.trigger_rule == "all_success"
    assert start_again.upstream_task_ids == {"shape_if_busy", "take_savepoint", "refuse_second_job"}
