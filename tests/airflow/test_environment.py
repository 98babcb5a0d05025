"""The check of *Plan only*: what `rescale doctor` says of a target, in the wording of the form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rescale.airflow.connections.access import DRIVER_POD_VARIABLE
from rescale.airflow.savepoint_tasks import check_environment
from rescale.airflow.steps.retries import TaskEnded
from rescale.runstate.claim import claim
from support.filled_forms import filled
from support.pipeline import plan_rescale
from support.snapshots import directory

SOURCE = directory("2-clicks")


def checked(target: Path) -> dict[str, Any]:
    """Return the output of the task for a run from `SOURCE` to a target."""
    summary: dict[str, Any] = check_environment.function(
        params=filled(source=SOURCE, target=str(target), parallelism=3)
    )
    return summary


def test_target_and_worker_are_checked_without_leaving_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    summary = checked(tmp_path / "rescaled")
    assert list(tmp_path.iterdir()) == []
    checks = [line for line in caplog.messages if line.startswith(("ok ", "warning "))]
    assert sum(summary.values()) == len(checks)
    for subject in ("Java: ", "pyspark: ", "scratch space: ", "target: put a probe if it is absent"):
        assert subject in caplog.text


def test_worker_that_cannot_run_steps_fails_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.doctor.machine.SPARK_PACKAGES", ("nothing_of_this_name",))
    with pytest.raises(TaskEnded, match="1 check ended with an error") as raised:
        checked(tmp_path / "rescaled")
    assert "nothing_of_this_name" in str(raised.value)
    assert "flink-rescale[spark]" in str(raised.value)


def test_worker_is_not_checked_if_steps_run_in_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv(DRIVER_POD_VARIABLE, str(tmp_path / "pod.yaml"))
    assert checked(tmp_path / "rescaled")["ok"] > 5
    assert "Java" not in caplog.text


def test_target_that_cannot_be_written_fails_the_check(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TaskEnded, match="a run would fail") as raised:
        checked(tmp_path / "file" / "rescaled")
    assert "target" in str(raised.value)


def test_advice_names_dags_instead_of_commands(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    claim(plan_rescale(SOURCE, str(tmp_path / "rescaled"), ["2"]))
    assert checked(tmp_path / "rescaled")["warning"] >= 1
    assert 'run "Discard what an unpublished run left" for' in caplog.text
    assert "rescale discard" not in caplog.text
