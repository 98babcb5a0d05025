"""Example DAGs run unchanged on local snapshots; `scale_out.py` runs with a real Flink in another test."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.dag_runner import DagRunner
from support.snapshots import directory

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[3] / "dags" / "examples"


def test_example_rescales_a_savepoint_and_starts_the_job(dags: DagRunner, tmp_path: Path) -> None:
    target = str(tmp_path / "rescaled")
    file = EXAMPLES / "rescale_then_start.py"
    run = dags.run(file, "example_rescale_then_start", source=directory("2-clicks"), target=target)
    assert run.state == "success", run.log
    assert run.outputs["start"] == {"start": run.outputs["rescale"]["start"]}
    assert (
        run.outputs["next_step"] == f"the job was started from {target}, certified by {target}.rescale/certificate.json"
    )


def test_example_copies_a_savepoint_and_a_dag_scheduled_on_results_runs(dags: DagRunner, tmp_path: Path) -> None:
    file = EXAMPLES / "nightly_copy.py"
    run = dags.run(file, "example_nightly_copy", source=directory("2-source"), copies=str(tmp_path))
    assert run.state == "success", run.log
    (night,) = [path for path in tmp_path.iterdir() if path.suffix != ".rescale"]
    assert run.outputs["copy"]["target"] == str(night)
    assert (night / "_metadata").is_file()
    by_hand = dags.run(EXAMPLES / "after_a_rescale.py", "example_after_a_rescale")
    assert by_hand.outputs == {"results": []}, "a DAG triggered by hand got results"
