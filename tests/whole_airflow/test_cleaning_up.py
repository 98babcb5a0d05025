"""Planning and cleaning up without the command line: a plan that is not executed, and files that a run left."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from rescale.demo.airflow_home import DAG_ID
from support.airflow_server import AirflowServer, request
from support.snapshots import directory


@pytest.mark.slow
def test_plan_only_run_writes_nothing(airflow: AirflowServer, tmp_path: Path) -> None:
    target = tmp_path / "rescaled"
    run = airflow.trigger_dag("rescale_plan", request(directory("2-clicks"), str(target), parallelism=" 3 "))
    assert run.end() == "success", run.states()
    log = run.log_text("plan")
    assert "asked for: parallelism 3, max parallelism unchanged; format unchanged" in log
    assert "relocate: the max parallelism stays" in log
    assert "target: put a probe if it is absent" in run.log_text("check")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_files_of_a_run_are_removed_only_after_it_has_ended(airflow: AirflowServer, tmp_path: Path) -> None:
    target = tmp_path / "rescaled"
    conf = request(directory("2-clicks"), str(target), parallelism=3)
    run = airflow.trigger_dag(DAG_ID, conf, dag_run_id=f"waits-reshuffle_keyed_state-{uuid.uuid4()}")
    run.wait_for_task("reshuffle_keyed_state", "running")
    parameters = {"target": f" {target} ", "connection": conf["connection"]}
    early = airflow.trigger_dag("rescale_discard", parameters)
    another = airflow.trigger(**{**conf, "parallelism": 2})
    assert (early.end(), another.end()) == ("failed", "failed")
    for log in (early.log_text("discard"), another.log_text("plan")):
        assert "another run has claimed the target and is still running" in log
        assert run.run_id in log
        assert "Discard what" not in log
    run.cancel()
    assert run.end() == "failed"
    next_run = airflow.trigger_dag(DAG_ID, conf, dag_run_id=f"waits-validate-{uuid.uuid4()}")
    next_run.wait_for_task("validate", "running")
    early = airflow.trigger_dag("rescale_discard", parameters)
    assert early.end() == "failed"
    assert next_run.run_id in early.log_text("discard")
    next_run.cancel()
    assert next_run.end() == "failed"
    late = airflow.trigger_dag("rescale_discard", parameters)
    assert late.end() == "success", late.log_text("discard")
    assert list(tmp_path.iterdir()) == []
    second_run = airflow.trigger_dag("rescale_discard", parameters)
    assert second_run.end() == "success"
    assert "nothing to do" in second_run.log_text("discard")
