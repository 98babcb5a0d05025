"""Tries of one Kubernetes Job count as one run; every other process is a run of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rescale.cli.arguments import prepared_plan_of
from rescale.cli.main import parser
from rescale.cli.run_name import name_of_this_job, name_of_this_run
from rescale.runstate.claim import claim
from rescale.text.errors import RequestError
from support.snapshots import directory


@pytest.mark.parametrize("next_job_uid", ["1a2b", "3c4d", ""])
def test_only_a_next_try_of_the_same_job_goes_on_with_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, next_job_uid: str
) -> None:
    checkpoints, target = tmp_path / "checkpoints", str(tmp_path / "target")
    arguments = parser().parse_args(["run", str(checkpoints), "--target", target, "--parallelism", "3"])
    shutil.copytree(directory("2-source"), checkpoints / "chk-1")
    monkeypatch.setenv("RESCALE_JOB_NAME", "clicks-run")
    monkeypatch.setenv("RESCALE_JOB_UID", "1a2b")
    first_plan = prepared_plan_of(arguments, name_of_this_job()).plan
    claim(first_plan, run_identity=name_of_this_run())
    shutil.copytree(directory("2-source"), checkpoints / "chk-2")
    monkeypatch.setenv("RESCALE_JOB_UID", next_job_uid)
    next_plan = prepared_plan_of(arguments, name_of_this_job()).plan
    if next_job_uid == "1a2b":
        assert next_plan.digest == first_plan.digest
    else:
        assert next_plan.source == str(checkpoints / "chk-2")
        with pytest.raises(RequestError) as caught:
            claim(next_plan, run_identity=name_of_this_run())
        assert "job clicks-run, uid 1a2b" in str(caught.value.found)
