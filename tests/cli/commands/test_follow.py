"""`rescale follow`: a line for each round, and refusals that name the option."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from rescale.cli.commands import run
from rescale.cli.main import main
from rescale.report.pages.planned import plan_document
from rescale.runstate.follower.pins import Pins
from rescale.runstate.follower.rounds import end_following
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import StoreError
from support import snapshots
from support.checkpoints import Checkpoints, checkpoints_in
from support.commands import Captured, answer
from support.diffing import diff
from support.readme import fields
from support.schemas import assert_valid
from support.trees import tree

SHAPE = ("--parallelism", "3", "--max-parallelism", "1000")


@pytest.fixture
def job(tmp_path: Path) -> Checkpoints:
    return checkpoints_in("2-rocksdb-incremental", str(tmp_path / "job"), tmp_path / "scratch")


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "target")


def follow(job: Checkpoints, target: str, *options: str) -> int:
    return main(["follow", job.directory, "--target", target, *options])


def test_follow_prints_a_line_for_each_round_and_finish_publishes(
    job: Checkpoints, target: str, capsys: Captured
) -> None:
    assert follow(job, target, *SHAPE, "--max-rounds", "0", "--output", "json") == 0
    job.copy_newest(4)
    assert follow(job, target, "--max-rounds", "1", "--output", "json") == 0, "the shape was not remembered"
    rounds = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(new_round["kind"], new_round["checkpoint"]) for new_round in rounds] == [("base", 3), ("round", 4)]
    assert all(new_round.keys() == fields("follow") for new_round in rounds)
    for new_round in rounds:
        assert_valid("follow", new_round)
    assert follow(job, target, "--max-rounds", "0") == 0
    assert not capsys.readouterr().out, "a round was made without a new checkpoint"
    code, finish_answer = answer(capsys, "follow", job.directory, "--target", target, "--finish")
    assert (code, finish_answer.keys()) == (0, fields("run"))
    assert diff(open_snapshot(job.newest), open_snapshot(target)).equal
    code, second_answer = answer(capsys, "follow", job.directory, "--target", target, "--finish")
    assert (code, second_answer["already_published"], second_answer["plan"]) == (0, True, finish_answer["plan"])


def later_start(job: Checkpoints, tmp_path: Path, number: int, fixture: str = "2-rocksdb-incremental") -> Checkpoints:
    """Return a job with a checkpoint of this number, whose files were all uploaded again, in another directory."""
    later_job = checkpoints_in(fixture, f"{job.directory}-again", tmp_path / "again")
    later_job.copy_newest(number)
    later_job.delete_older(number)
    return later_job


def test_rounds_go_on_when_the_job_was_started_again(
    job: Checkpoints, target: str, tmp_path: Path, capsys: Captured
) -> None:
    """The job was started from its last checkpoint, under another id, while its follower was off."""
    assert follow(job, target, *SHAPE, "--max-rounds", "0") == 0
    later_job = later_start(job, tmp_path, 4)
    capsys.readouterr()
    assert follow(later_job, target, "--max-rounds", "1", "--output", "json") == 0
    output = capsys.readouterr()
    (new_round,) = [json.loads(line) for line in output.out.splitlines()]
    assert (new_round["kind"], new_round["number"], new_round["checkpoint"], new_round["bytes_read"]) == (
        "round",
        1,
        4,
        0,
    )
    assert f"the job was started again, and its checkpoints are in {later_job.directory} now" in output.err
    assert follow(job, target, "--max-rounds", "1") == 2
    assert "chk-3, which was written before that checkpoint" in capsys.readouterr().err
    assert follow(later_job, target, "--finish") == 0
    assert diff(open_snapshot(later_job.newest), open_snapshot(target)).equal


def test_finish_publishes_the_last_checkpoint_of_a_job_that_was_started_again(
    job: Checkpoints, target: str, tmp_path: Path, capsys: Captured
) -> None:
    assert follow(job, target, *SHAPE, "--max-rounds", "0") == 0
    later_job = later_start(job, tmp_path, 4)
    assert follow(later_job, target, "--finish") == 0, capsys.readouterr()
    assert diff(open_snapshot(later_job.newest), open_snapshot(target)).equal


def test_directory_of_another_job_is_refused(job: Checkpoints, target: str, tmp_path: Path, capsys: Captured) -> None:
    assert follow(job, target, *SHAPE, "--max-rounds", "0") == 0
    capsys.readouterr()
    code, error = answer(capsys, "follow", str(tmp_path / "empty"), "--target", target, "--max-rounds", "1")
    assert (code, error["found"]) == (2, "no complete checkpoint")
    assert "wait for a checkpoint if the job was just started again" in error["advice"]
    another_job = later_start(job, tmp_path, 4, "1.20-rocksdb-incremental")
    for options in ((), ("--finish",)):
        code, error = answer(capsys, "follow", another_job.directory, "--target", target, "--max-rounds", "1", *options)
        assert (code, error["path"]) == (2, another_job.directory)
        assert "nothing shows that this is a later start of that job" in error["what"]
        assert error["found"] == "chk-4, which has other state backends"
    assert follow(job, target, "--finish") == 0, "the rounds are gone"


def test_different_max_parallelisms_need_consent_before_the_base(
    job: Checkpoints, target: str, capsys: Captured
) -> None:
    different_maxima = ("--max-parallelism", "clicks-per-user=64", "--max-rounds", "0")
    assert follow(job, target, *different_maxima) == 2
    assert "would give operators different max parallelisms" in capsys.readouterr().err
    assert follow(job, target, *different_maxima, "--yes") == 0, capsys.readouterr()
    assert follow(job, target, "--finish") == 0, "the consent of the start was forgotten"


def test_text_output_says_what_the_cut_over_waits_for(job: Checkpoints, target: str, capsys: Captured) -> None:
    assert follow(job, target, *SHAPE, "--max-rounds", "0") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("base: checkpoint 3, ")
    assert "; waits for " in line


def test_error_is_one_line_of_json(job: Checkpoints, target: str, capsys: Captured) -> None:
    Path(target).mkdir()
    Path(target, "_metadata").touch()
    assert follow(job, target, *SHAPE, "--output", "json") == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["path"] == target


def test_advice_marks_an_option_that_only_other_commands_have(
    target: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rescale.following.follower.POLL_SECONDS", 0)
    monkeypatch.setattr("rescale.following.follower._MOST_ATTEMPTS", 1)
    checkpoints = snapshots.directory("1.20-rocksdb-incremental").rpartition("/")[0]
    code, error = answer(capsys, "follow", checkpoints, "--target", target, "--max-rounds", "0")
    assert (code, error["what"]) == (3, "a handle points outside the snapshot")
    assert "--moved OLD=NEW (which this command does not have)" in error["advice"]
    assert "/shared; if" in error["advice"], "the command has --allow-prefix, but the advice denies it"


@pytest.mark.parametrize(
    ("option", "value"),
    [("--max-rounds", "-1"), ("--publish-every", "0"), ("--pause-above", "fast"), ("--max-rounds", "a few")],
)
def test_invalid_value_is_refused_with_its_option(
    job: Checkpoints, target: str, capsys: Captured, option: str, value: str
) -> None:
    assert follow(job, target, f"{option}={value}", "--output", "json") == 2
    error = json.loads(capsys.readouterr().out)
    assert (error["option"], error["found"]) == (option, value)
    assert not Path(f"{target}.rescale").exists()


def test_finish_of_a_job_that_still_runs_publishes_nothing(
    job: Checkpoints, target: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that is started from the result would repeat what the running job has processed since the checkpoint."""
    assert follow(job, target, *SHAPE, "--max-rounds", "0") == 0

    monkeypatch.setattr(run, "plan_document", lambda *arguments: (job.copy_newest(4), plan_document(*arguments))[1])
    capsys.readouterr()
    code, error = answer(capsys, "follow", job.directory, "--target", target, "--finish")
    assert (code, error["found"]) == (2, "checkpoint 4")
    assert "repeat this command" in error["advice"]
    assert not Path(target, "_metadata").exists()
    monkeypatch.undo()
    assert follow(job, target, "--finish") == 0, "the rounds are gone"
    assert diff(open_snapshot(job.newest), open_snapshot(target)).equal


@pytest.mark.parametrize("job_goes_on", [True, False])
def test_finish_that_was_killed_after_it_had_published_is_cleaned_up(
    job: Checkpoints, target: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, job_goes_on: bool
) -> None:
    """The job may have made another checkpoint since, because it was not cancelled or was started from the result."""
    assert follow(job, target, *SHAPE, "--max-rounds", "0") == 0
    monkeypatch.setattr("rescale.cli.commands.follow.remove_follower", Mock(side_effect=StoreError("killed")))
    assert follow(job, target, "--finish") == 1
    monkeypatch.undo()
    documents, another_job = Path(f"{target}.rescale"), later_start(job, tmp_path, 3)
    follower_files = {"pins", "rounds", "follower.json"}
    assert follow(another_job, target, "--finish") == 2
    assert follower_files <= {path.name for path in documents.iterdir()}, (
        "a command with a wrong directory removed them"
    )
    if job_goes_on:
        job.copy_newest(4)
    capsys.readouterr()
    code, finish_answer = answer(capsys, "follow", job.directory, "--target", target, "--finish")
    assert not follower_files & {path.name for path in documents.iterdir()}
    if not job_goes_on:
        assert (code, finish_answer["already_published"]) == (0, True)
        return
    assert (code, finish_answer["found"]) == (2, "checkpoint 4")
    assert "the result is published" in finish_answer["what"]
    assert "if the job was already started from the result, nothing is left to do" in finish_answer["advice"]


def test_published_result_is_no_answer_for_a_later_checkpoint_or_another_job(
    job: Checkpoints, target: str, tmp_path: Path, capsys: Captured
) -> None:
    assert follow(job, target, *SHAPE, "--max-rounds", "0") == 0
    assert follow(job, target, "--finish") == 0
    another_job = later_start(job, tmp_path, 4)
    job.copy_newest(4)
    capsys.readouterr()
    for directory, found_text in ((job.directory, "checkpoint 4"), (another_job.directory, job.directory)):
        code, error = answer(capsys, "follow", directory, "--target", target, "--finish")
        assert (code, error["path"]) == (2, target)
        assert error["found"].startswith(found_text)
        assert "another target" in error["advice"]


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        (("--parallelism", "3"), "parallelism 3, max parallelism 1000"),
        (("--parallelism", "clicks-per-user=4", "--max-parallelism", "1000"), "parallelism 3, max parallelism 1000"),
        (SHAPE, None),
    ],
)
def test_published_result_in_another_shape_is_no_answer(
    job: Checkpoints, target: str, capsys: Captured, options: tuple[str, ...], shape: str | None
) -> None:
    """An earlier run without a follower has published it."""
    assert main(["run", job.newest, "--target", target, *SHAPE]) == 0
    capsys.readouterr()
    code, document = answer(capsys, "follow", job.directory, "--target", target, "--finish", *options)
    if shape is None:
        assert (code, document["already_published"]) == (0, True)
        return
    assert (code, document["path"], document["found"]) == (2, target, shape)
    assert "in another shape" in document["what"]


def test_other_runs_are_refused_by_a_followed_target_before_they_write(
    job: Checkpoints, target: str, tmp_path: Path, capsys: Captured
) -> None:
    """Another run would publish its own result, beside which the rounds and pins of the follower would stay."""
    assert follow(job, target, *SHAPE, "--max-rounds", "0") == 0
    another_job = later_start(job, tmp_path, 4, "1.20-rocksdb-incremental")
    capsys.readouterr()
    for followed_job in (job.directory, "a job that was started again"):
        before = tree(Path(target).parent)
        for source, options in ((job.newest, SHAPE), (job.newest, ("--parallelism", "3")), (another_job.newest, SHAPE)):
            for command in (("run",), ("run", "--prepare")):
                code, error = answer(capsys, *command, source, "--target", target, *options)
                assert (code, error["path"]) == (2, target)
                assert error["found"] == f"a follower of {followed_job}, max-parallelism 1000, parallelism 3"
                assert f"rescale discard {target}" in error["advice"]
            code, plan = answer(capsys, "plan", source, "--target", target, *options)
            assert (code, plan["refused"]["what"]) == (0, error["what"])
        assert tree(Path(target).parent) == before
        end_following(target)
    assert follow(job, target, *SHAPE, "--max-rounds", "0") == 0
    assert follow(job, target, "--finish") == 0
    assert diff(open_snapshot(job.newest), open_snapshot(target)).equal


def test_run_is_accepted_after_the_follower_was_discarded(job: Checkpoints, target: str) -> None:
    assert follow(job, target, *SHAPE, "--max-rounds", "0") == 0
    assert main(["discard", target]) == 0
    assert main(["run", job.newest, "--target", target, "--parallelism", "4"]) == 0


def test_finish_without_a_follower_is_refused(job: Checkpoints, target: str, capsys: Captured) -> None:
    code, error = answer(capsys, "follow", job.directory, "--target", target, "--finish")
    assert (code, error["path"]) == (2, target)


def test_discard_ends_a_follower(job: Checkpoints, target: str, capsys: Captured) -> None:
    assert follow(job, target, *SHAPE, "--max-rounds", "0") == 0
    pins = Pins(target, job.directory)
    assert pins.newest() is not None
    capsys.readouterr()
    code, document = answer(capsys, "discard", target)
    assert (code, document["left"]) == (0, [])
    assert not Path(f"{target}.rescale").exists()
    code, error = answer(capsys, "follow", job.directory, "--target", target, "--finish")
    assert (code, error["error"]) == (2, "RequestError")
