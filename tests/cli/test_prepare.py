"""`rescale run --prepare`: its answers, its refusals, and a checkpoint that Flink deletes while it is copied."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from rescale.cli import preparing
from rescale.cli.main import main
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.plan.plan import Plan
from rescale.runstate.preparation import begin_preparing
from support import warm
from support.checkpoints import Checkpoints, checkpoints_in
from support.commands import Captured, answer
from support.readme import fields
from support.schemas import assert_valid

SHAPE = ("--parallelism", "4")


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoints:
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    monkeypatch.setattr("rescale.cli.command_steps.run_step", warm.run_steps)
    monkeypatch.setattr("rescale.cli.command_steps.LastingProcess", warm.InThisProcess)
    return checkpoints_in("2-rocksdb-incremental", str(tmp_path / "job"), tmp_path / "scratch")


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "target")


def test_json_says_what_is_new_and_what_a_run_would_still_write(
    job: Checkpoints, target: str, capsys: Captured
) -> None:
    command = ("run", job.directory, "--target", target, *SHAPE)
    code, first_preparation = answer(capsys, *command, "--prepare")
    assert (code, first_preparation.keys()) == (0, fields("prepare"))
    assert_valid("prepare", first_preparation)
    assert (first_preparation["source"], first_preparation["new_files"], first_preparation["new_bytes"]) == (
        job.newest,
        first_preparation["files"],
        first_preparation["bytes"],
    )
    assert first_preparation["bytes_left"] > 0
    job.copy_newest(4)
    code, second_preparation = answer(capsys, *command, "--prepare")
    assert code == 0
    assert second_preparation == {**first_preparation, "source": job.newest, "new_files": 0, "new_bytes": 0}
    code, run_answer = answer(capsys, "run", job.newest, "--target", target, *SHAPE)
    assert (code, run_answer["bytes_moved"]) == (0, first_preparation["bytes"] + first_preparation["bytes_left"])
    code, second_answer = answer(capsys, "run", job.newest, "--target", target, *SHAPE)
    assert (code, second_answer["already_published"], second_answer["plan"]) == (0, True, run_answer["plan"])
    code, late_error = answer(capsys, *command, "--prepare")
    assert code == 2
    assert late_error["path"] == target


def test_text_says_what_is_new_and_what_to_do_next(job: Checkpoints, target: str, capsys: Captured) -> None:
    assert main(["run", job.directory, "--target", target, *SHAPE, "--prepare"]) == 0
    prepared_line, rest_line, advice_line = capsys.readouterr().out.splitlines()
    assert prepared_line.startswith(f"{target} is prepared: it has ")
    assert f"SST files of {job.newest}, " in prepared_line
    assert "would still write" in rest_line
    assert "without --prepare" in advice_line


def test_preparation_is_refused_if_no_file_can_be_copied_unchanged(
    job: Checkpoints, target: str, capsys: Captured
) -> None:
    code, error = answer(
        capsys, "run", job.directory, "--target", target, "--max-parallelism", "1000", *SHAPE, "--prepare"
    )
    assert (code, error["path"]) == (2, job.newest)
    assert not Path(f"{target}.rescale").exists()


def test_preparation_with_a_base_is_refused(job: Checkpoints, target: str, capsys: Captured) -> None:
    code, error = answer(capsys, "run", job.newest, "--target", target, *SHAPE, "--prepare", "--base", "/base")
    assert (code, error["found"]) == (2, "both options")


def test_newest_checkpoint_is_prepared_if_flink_deletes_the_named_one(
    job: Checkpoints, target: str, capsys: Captured
) -> None:
    subsumed: list[int] = []

    def subsume(plan: Plan) -> None:
        begin_preparing(plan)
        if not subsumed:
            subsumed.append(job.number)
            job.copy_newest(4)
            job.move_shared_to(f"{job.directory}/elsewhere")
            job.delete_older(4)

    with patch.object(preparing, "begin_preparing", subsume):
        assert main(["run", job.directory, "--target", target, *SHAPE, "--prepare"]) == 0
    captured = capsys.readouterr()
    assert f"{job.newest}, " in captured.out
    assert "is gone: " in captured.err
    assert main(["run", job.newest, "--target", target, *SHAPE]) == 0
    assert validate_published(job.newest, target, InProcessTasks()).verdict == "complete"


def test_checkpoint_with_missing_files_is_refused(job: Checkpoints, target: str, capsys: Captured) -> None:
    def lose_shared_files(plan: Plan) -> None:
        begin_preparing(plan)
        for uri in job.shared():
            Path(uri).unlink()

    with patch.object(preparing, "begin_preparing", lose_shared_files):
        code, error = answer(capsys, "run", job.newest, "--target", target, *SHAPE, "--prepare")
    assert code == 3
    assert error["path"] == f"{job.newest}/_metadata"
