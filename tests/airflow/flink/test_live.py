"""A job of a real session cluster is rescaled while it runs: followed, cancelled and started in its new shape."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from rescale.airflow.flink import stopping
from rescale.airflow.flink.job_record import RECORD_KEY, Phase
from rescale.airflow.flink.last_checkpoint import cancel, newest_checkpoint
from rescale.airflow.job.job_operators import GoBack
from rescale.airflow.live import cut_over
from rescale.airflow.live.cut_over import CutOver
from rescale.airflow.live.verify_task import _verify
from rescale.airflow.live.watch import Watch
from rescale.airflow.steps.earlier_tasks import ROUNDS_KEY
from rescale.cli.main import main
from rescale.following.round_plan import plan_round
from rescale.runstate.approval import decide_cut_over
from rescale.runstate.certificate import read_certificate
from rescale.runstate.follower.rounds import Round, RoundKind
from rescale.runstate.places import is_prepared_file, pins_place, rounds_place, run_directory
from rescale.snapshot.reading.discovery import newest_complete_checkpoint
from rescale.storage.locations import name
from rescale.storage.store import open_store
from rescale.text.errors import RequestError, StoreError, UnsupportedError
from support.deferring import run_operator
from support.live_story import LiveStory, begin
from support.session_cluster import SMALL_FILES, SessionCluster, wait_until


def go_back(story: LiveStory) -> Any:
    operator = GoBack(task_id="back", old_job_document=msgspec.to_builtins(story.before), take_output=None)
    return run_operator(operator, story.run_id, story.state)


def test_job_is_followed_and_cut_over(cluster: SessionCluster, tmp_path: Path) -> None:
    story = begin(cluster, tmp_path / "result")
    summary = story.follow()
    assert story.shapes(summary["job"]) == {(3, 256)}
    wait_until(lambda: cluster.is_counting(summary["job"]), "the job to go on counting")
    assert cluster.alive() == {summary["job"]}
    assert Path(summary["restored_from"].removeprefix("file:")) == tmp_path / "result"
    assert summary["source"] == newest_checkpoint(story.before.directory)
    assert summary["in_place_of"] == story.job_id
    parts = ["cancel", "publish", "check for a later snapshot", "start"]
    assert [part for part in summary["seconds"] if "last round" not in part] == parts
    assert summary["downtime_seconds"] >= sum(summary["seconds"].values()) - 1
    assert story.state[ROUNDS_KEY]["round"] >= 1
    remaining = [entry.uri for entry in open_store(story.target).list(run_directory(story.target))]
    assert not [uri for uri in remaining if uri.startswith((pins_place(story.target), rounds_place(story.target)))]
    assert _verify(summary, story.form, None)["verdict"] == "complete"


@pytest.mark.slow
@pytest.mark.parametrize("files", ["refer", "copy"])
def test_job_that_keeps_its_max_parallelism_is_cut_over_without_rounds(
    cluster: SessionCluster, tmp_path: Path, files: str
) -> None:
    """The state is so small that no file can be copied ahead: `_metadata` has all of it."""
    story = begin(cluster, tmp_path / files, parallelism=4, max_parallelism=None, files=files)
    summary = story.follow()
    assert story.shapes(summary["job"]) == {(4, 128)}
    wait_until(lambda: cluster.is_counting(summary["job"]), "the job to go on counting")
    assert cluster.alive() == {summary["job"]}
    assert ROUNDS_KEY not in story.state


@pytest.mark.slow
def test_failed_cut_over_starts_the_job_as_it_was(cluster: SessionCluster, tmp_path: Path) -> None:
    story = begin(cluster, tmp_path / "fails", "128")  # a max parallelism in the code, which no configuration overrides
    with pytest.raises(
        RequestError, match="the cut-over failed, and the job runs again with its old shape: the job did not start"
    ):
        story.follow()
    (old,) = cluster.alive()
    assert old != story.job_id
    assert story.shapes(old) == {(2, 128)}
    wait_until(lambda: cluster.is_counting(old), "the job to go on counting")
    assert go_back(story)["job"] == old, "the task that goes back finds it"
    assert not [*open_store(story.target).list(story.target)], "the result from which the job did not start"
    with pytest.raises(
        RequestError, match="the cut-over has already failed, and the job was started again with its old shape"
    ):
        story.follow()
    assert cluster.alive() == {old}


@pytest.mark.slow
def test_cut_over_that_takes_too_long_starts_the_job_as_it_was(cluster: SessionCluster, tmp_path: Path) -> None:
    story = begin(cluster, tmp_path / "late", give_up_after=0.5)
    with (
        patch.object(CutOver, "_publish_and_start", side_effect=StoreError("the store is away")),
        pytest.raises(
            RequestError, match="the cut-over failed, and the job runs again with its old shape: the store is away"
        ),
    ):
        story.follow()
    (old,) = cluster.alive()
    assert story.shapes(old) == {(2, 128)}


def wait_for_all_keys(cluster: SessionCluster, story: LiveStory) -> None:
    """Wait until the job `Bulk` has written and compacted all keys; else it would rewrite all files after a restart."""
    wait_until(lambda: cluster.records_read(story.job_id) >= 50_000, "the job to write all keys")
    checkpoint = newest_complete_checkpoint(story.before.directory) or 0
    wait_until(
        lambda: (newest_complete_checkpoint(story.before.directory) or 0) >= checkpoint + 2, "the compactions to end"
    )


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_rounds_go_on_after_a_failed_cut_over(cluster: SessionCluster, tmp_path: Path, killed: bool) -> None:
    """After its restart, the job has another directory of checkpoints, and uploads all files again under new names.

    If the cut-over is killed for good, after it has published, the task that goes back starts the job again.
    """
    story = begin(
        cluster,
        tmp_path / f"again-{killed}",
        "150000",
        "500",
        "100",
        main="Bulk",
        options={**SMALL_FILES, "execution.checkpointing.interval": "10s"},  # few rounds are made for the cut-over
        cut_over="when approved",
    )
    wait_for_all_keys(cluster, story)
    reported: list[Round] = []
    report = Watch.report

    def approve(watch: Watch, finished: Round, waits_for: str | None) -> None:
        report(watch, finished, waits_for)
        reported.append(finished)
        if waits_for == "an approval" and finished.kind is RoundKind.ROUND:
            decide_cut_over(story.target, watch.follower.run_identity, "said so", is_approved=True)

    with patch.object(Watch, "report", approve):
        if killed:
            with (
                patch.object(cut_over, "hand_job_over", side_effect=KeyboardInterrupt),
                pytest.raises(KeyboardInterrupt),
            ):
                story.follow()
            assert go_back(story)["in_place_of"] == story.job_id
        else:
            with (
                patch.object(cut_over, "publish", side_effect=UnsupportedError("it cannot be published")),
                pytest.raises(
                    RequestError, match="the job runs again with its old shape: it cannot be published"
                ) as caught,
            ):
                story.follow()
            assert "clear all tasks of this run: it goes on with the rounds" in str(caught.value.advice)
        remaining = [name(entry.uri) for entry in open_store(story.target).list(story.target)]
        assert all(map(is_prepared_file, remaining)), "files of the result from which the job was not started"
        number_of_rounds, last = len(reported), reported[-1]
        next_story = story.again()
        next_story.state.update(story.state)  # as if all tasks of the run were cleared
        assert next_story.before.directory != story.before.directory
        summary = next_story.follow()
    first = reported[number_of_rounds]
    assert (first.kind, first.number, first.root) == (RoundKind.ROUND, last.number + 1, last.root)
    state = sum(file.size for file in read_certificate(story.target).files)
    assert first.bytes_read < state / 3, "the round read unchanged files"
    assert story.shapes(summary["job"]) == {(3, 256)}
    assert cluster.alive() == {summary["job"]}
    assert summary["source"] == newest_checkpoint(next_story.before.directory)
    assert _verify(summary, next_story.form, None)["verdict"] == "complete"


@pytest.mark.slow
def test_rounds_on_a_command_line_go_on_after_a_restart(
    cluster: SessionCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody has started the job again from its last checkpoint, so it has another directory of checkpoints."""
    story = begin(cluster, tmp_path / "by-hand", "150000", "500", "100", main="Bulk", options=SMALL_FILES)
    wait_for_all_keys(cluster, story)

    def follow(directory: str, rounds: int) -> Any:
        shape = ["--parallelism", "3", "--max-parallelism", "256"]
        limits = ["--max-rounds", str(rounds), "--output", "json"]
        assert main(["follow", directory, "--target", story.target, *shape, *limits]) == 0
        (finished_round,) = (json.loads(line) for line in capsys.readouterr().out.splitlines())
        return finished_round

    base = follow(story.before.directory, 0)
    with cluster.open() as flink:
        cancel(flink, story.job_id)
    stopping.go_back(story.before, "by hand", newest_checkpoint(story.before.directory))
    next_story = story.again()
    assert next_story.before.directory != story.before.directory
    next_round = follow(next_story.before.directory, 1)
    assert (next_round["kind"], next_round["number"], next_round["root"]) == ("round", 1, base["checkpoint"])
    assert next_round["bytes_read"] < base["bytes_read"]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["cancel", "move_last", "publish", "hand_job_over", "put_report"])
def test_task_killed_during_a_cut_over_goes_on(cluster: SessionCluster, tmp_path: Path, where: str) -> None:
    story = begin(cluster, tmp_path / where)
    place = {
        "cancel": "rescale.airflow.live.cut_over.cancel",
        "move_last": "rescale.following.follower.Follower.move_last",
        "publish": "rescale.airflow.live.cut_over.publish",
        "hand_job_over": "rescale.airflow.live.cut_over.hand_job_over",
        "put_report": "rescale.airflow.live.follow_work.put_report",
    }[where]
    with patch(place, side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        story.follow()
    assert story.state.get(RECORD_KEY, {}).get("phase") == {"move_last": None, "put_report": Phase.STARTED}.get(
        where, Phase.STOPS
    )
    summary = story.follow()
    assert cluster.alive() == {summary["job"]}
    assert story.shapes(summary["job"]) == {(3, 256)}
    wait_until(lambda: cluster.is_counting(summary["job"]), "the job to go on counting")


@pytest.mark.slow
def test_run_that_ends_during_a_cut_over_goes_back(cluster: SessionCluster, tmp_path: Path) -> None:
    story = begin(cluster, tmp_path / "ends")
    with patch.object(cut_over, "hand_job_over", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        story.follow()
    assert cluster.alive() == set()
    old = go_back(story)
    assert cluster.alive() == {old["job"]}
    assert story.shapes(old["job"]) == {(2, 128)}
    wait_until(lambda: cluster.is_counting(old["job"]), "the job to go on counting")


@pytest.mark.slow
@pytest.mark.parametrize("approved", [True, False])
def test_rounds_go_on_while_a_cut_over_waits_for_its_approval(
    cluster: SessionCluster, tmp_path: Path, approved: bool
) -> None:
    story = begin(cluster, tmp_path / f"asked-{approved}", cut_over="when approved")
    rounds: list[int] = []
    report = Watch.report

    def decide_after_two(watch: Watch, finished: Any, waits_for: str | None) -> None:
        report(watch, finished, waits_for)
        rounds.append(finished.number)
        if waits_for == "an approval" and len(rounds) > 4:
            decide_cut_over(story.target, watch.follower.run_identity, "said so", is_approved=approved)

    with patch.object(Watch, "report", decide_after_two):
        if approved:
            summary = story.follow()
        else:
            with pytest.raises(RequestError, match="the cut-over is given up, and the job was left alone"):
                story.follow()
    assert len(rounds) > 4
    assert cluster.alive() == {summary["job"] if approved else story.job_id}


@pytest.mark.slow
def test_window_that_closes_leaves_the_job_alone_and_nothing_behind(cluster: SessionCluster, tmp_path: Path) -> None:
    story = begin(cluster, tmp_path / "closed", cut_over="when approved")
    now = datetime.now(UTC)
    report = Watch.report

    def close(watch: Watch, finished: Any, waits_for: str | None) -> None:
        report(watch, finished, waits_for)
        if waits_for == "an approval":
            watch.closes_at = now

    for closes in (now + timedelta(hours=1), now):  # the second time, the window is closed before anything is made
        with (
            patch.object(Watch, "report", close),
            pytest.raises(RequestError, match="the window closed before the cut-over, so the job was left alone"),
        ):
            story.follow(closes)
        store = open_store(story.target)
        assert [*store.list(story.target), *store.list(run_directory(story.target))] == []
    assert story.state[ROUNDS_KEY]["round"] >= 1
    assert cluster.alive() == {story.job_id}
    wait_until(lambda: cluster.is_counting(story.job_id), "the job to go on counting")


@pytest.mark.slow
@pytest.mark.parametrize("is_awaited", [False, True])
def test_job_that_ends_while_it_is_followed_is_left_alone(
    cluster: SessionCluster, tmp_path: Path, is_awaited: bool
) -> None:
    """If a round was skipped because of records in flight, the run waits for a checkpoint that never comes."""
    story = begin(cluster, tmp_path / "ended")
    plans: list[object] = []

    def end(*_: object) -> None:
        with cluster.open() as flink:
            flink.cancel(story.job_id)
        wait_until(lambda: not cluster.alive(), "the job to end")

    def plan(*arguments: Any, **more: Any) -> Any:
        plans.append(arguments)
        if len(plans) == 1 or not is_awaited:
            return plan_round(*arguments, **more)
        end()
        raise UnsupportedError("it holds records in flight")

    with (
        patch.object(Watch, "report", (lambda *_, **__: None) if is_awaited else lambda *_, **__: end()),
        patch("rescale.following.follower.plan_round", plan),
        pytest.raises(RequestError, match="the job has ended while it was followed"),
    ):
        story.follow()
    assert cluster.alive() == set()


@pytest.mark.slow
def test_long_last_round_postpones_the_cut_over(cluster: SessionCluster, tmp_path: Path) -> None:
    story = begin(cluster, tmp_path / "long", most_downtime=0.001)
    waited: list[str | None] = []

    def report(_: Watch, __: Any, waits_for: str | None) -> None:
        waited.append(waits_for)
        if len(waited) == 4:
            raise KeyboardInterrupt

    with patch.object(Watch, "report", report), pytest.raises(KeyboardInterrupt):
        story.follow()
    assert waited == [*["another round"] * 2, *["a round of at most 1 second"] * 2], "after the base, and a first round"
    assert cluster.alive() == {story.job_id}
