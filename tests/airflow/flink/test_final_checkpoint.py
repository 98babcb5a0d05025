"""The checkpoint from which an ended job is restarted: Flink's answer and the job's directory must agree."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from rescale.airflow.flink import last_checkpoint
from rescale.airflow.flink.answer_watch import first_fresh_request_time
from rescale.airflow.flink.final_checkpoint import (
    final_checkpoint,
    recorded_checkpoint,
    refuse_checkpoints_of_earlier_start,
    refuse_later_snapshot,
    restart_checkpoint,
)
from rescale.flink_rest.responses import (
    CompletedCheckpoint,
    CompletedSavepoint,
    LatestCheckpoints,
    RestoredSnapshot,
    seconds_of,
)
from rescale.text.errors import RequestError

OLD_SECONDS = 0.3


class Cluster:
    """A Flink that gives these answers and then repeats the last one; None stands for an unknown job."""

    address = "http://flink"

    def __init__(self, *answers: LatestCheckpoints | None) -> None:
        self.answers = list(answers)

    def latest_checkpoints(self, _: str) -> LatestCheckpoints | None:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def answer_cache_seconds(self) -> float:
        return OLD_SECONDS


def completed(number: int, **more: Any) -> LatestCheckpoints:
    return LatestCheckpoints(completed=CompletedCheckpoint(id=number), **more)


def stopped(number: int, savepoint: int, kind: str = "SYNC_SAVEPOINT") -> LatestCheckpoints:
    return completed(number, savepoint=CompletedSavepoint("file:/s", savepoint, kind))


def restored(number: int) -> LatestCheckpoints:
    return LatestCheckpoints(restored=RestoredSnapshot(id=number))


@pytest.fixture
def checkpoints(tmp_path: Path) -> str:
    """Return a directory with the checkpoints 7 and 8."""
    for number in (7, 8):
        add(tmp_path, number)
    return str(tmp_path)


def add(checkpoints: Path, number: int) -> None:
    directory = checkpoints / f"chk-{number}"
    directory.mkdir()
    (directory / "_metadata").touch()


def final(cluster: Any, checkpoints: str, known: int | None = 7) -> str:
    return final_checkpoint(cluster, "job", checkpoints, known).removeprefix(checkpoints)


def restart(cluster: Any, checkpoints: str, known: int | None = 7) -> str:
    return restart_checkpoint(cluster, "job", checkpoints, known).removeprefix(checkpoints)


@pytest.mark.parametrize(
    "answers",
    [
        [completed(8)],
        [completed(6), completed(7), completed(8)],
        [LatestCheckpoints(), restored(8)],
        [completed(8, restored=RestoredSnapshot(id=5))],
        [stopped(8, 5)],
        [stopped(8, 9, "SAVEPOINT")],
    ],
    ids=["same", "old answers", "failover", "restored before", "stopped before", "savepoint that commits nothing"],
)
def test_newest_checkpoint_is_taken_if_flink_completed_it_last(
    answers: list[LatestCheckpoints], checkpoints: str
) -> None:
    assert final(Cluster(*answers), checkpoints) == restart(Cluster(*answers), checkpoints) == "/chk-8"


def test_newest_checkpoint_that_flink_aborted_is_refused(checkpoints: str) -> None:
    """The checkpoint has a `_metadata`, but its transactions were aborted: the job goes on from the one before."""
    started_at = time.monotonic()
    with pytest.raises(RequestError, match="not the one that Flink completed last") as caught:
        final(Cluster(completed(7)), checkpoints)
    assert time.monotonic() - started_at >= OLD_SECONDS, "an old answer of Flink was believed"
    assert "checkpoint 7" in str(caught.value.expected)
    assert caught.value.found == "checkpoint 8"
    assert restart(Cluster(completed(7)), checkpoints) == "/chk-7"


def test_completed_checkpoint_that_is_missing_is_refused(checkpoints: str) -> None:
    with pytest.raises(RequestError, match="not the one that Flink completed last"):
        final(Cluster(completed(9)), checkpoints)
    with pytest.raises(RequestError, match="uncertain which checkpoint"):
        restart(Cluster(completed(9)), checkpoints)


def test_checkpoint_of_a_job_unknown_to_flink_must_be_the_last_known_one(checkpoints: str) -> None:
    """After the loss of a JobManager, nothing is known of later checkpoints."""
    assert final(Cluster(None), checkpoints, 8) == restart(Cluster(None), checkpoints, 8) == "/chk-8"
    for known in (7, None):
        with pytest.raises(RequestError, match="not the one that Flink completed last"):
            final(Cluster(None), checkpoints, known)
        with pytest.raises(RequestError, match="uncertain which checkpoint"):
            restart(Cluster(None), checkpoints, known)


def test_recorded_checkpoint_is_taken_without_asking_flink(checkpoints: str) -> None:
    assert recorded_checkpoint("job", checkpoints, 7) == f"{checkpoints}/chk-7"
    for number in (9, None):
        with pytest.raises(RequestError, match="uncertain which checkpoint"):
            recorded_checkpoint("job", checkpoints, number)


def test_missing_checkpoints_are_refused(tmp_path: Path) -> None:
    for ask in (final, restart):
        with pytest.raises(RequestError) as caught:
            ask(Cluster(None), str(tmp_path), None)
        assert "none" in str(caught.value.found)


def test_job_stopped_by_somebody_else_is_refused(checkpoints: str) -> None:
    for ask in (final, restart):
        with pytest.raises(RequestError, match="somebody else has stopped the job") as caught:
            ask(Cluster(stopped(8, 9)), checkpoints)
        assert caught.value.found == "file:/s"


def test_stop_by_somebody_else_is_looked_for_until_the_answer_is_recent() -> None:
    cluster: Any = Cluster(completed(8), completed(8), stopped(8, 9))
    fresh = first_fresh_request_time(cluster, time.monotonic())
    with pytest.raises(RequestError, match="somebody else has stopped the job"):
        refuse_later_snapshot(cluster, "job", fresh, 8)
    cluster, started_at = Cluster(completed(8)), time.monotonic()
    refuse_later_snapshot(cluster, "job", first_fresh_request_time(cluster, started_at), 8)
    assert time.monotonic() - started_at >= OLD_SECONDS


def test_checkpoint_that_the_store_lists_late_is_not_overlooked(checkpoints: str) -> None:
    """Flink's first answer is as old as the listing, so both agree."""
    cluster: Any = Cluster(completed(8), completed(8), completed(9))
    assert final(cluster, checkpoints) == "/chk-8"
    fresh = first_fresh_request_time(cluster, time.monotonic())
    with pytest.raises(RequestError, match="the store's listing of the job's checkpoints is outdated") as caught:
        refuse_later_snapshot(cluster, "job", fresh, 8)
    assert caught.value.found == "checkpoint 9"


def test_checkpoints_of_an_earlier_run_of_the_job_are_refused_before_the_cancel(checkpoints: str) -> None:
    cluster: Any = Cluster(completed(3))
    with pytest.raises(RequestError, match="from an earlier start") as caught:
        refuse_checkpoints_of_earlier_start(cluster, "job", checkpoints)
    assert caught.value.found == "checkpoint 8"
    assert "checkpoint 3" in str(caught.value.expected)


def test_source_is_not_taken_while_the_directory_has_a_newer_checkpoint_of_an_earlier_start(
    checkpoints: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job may have been started again since the run looked at it."""
    numbers = iter([3, 8])
    monkeypatch.setattr(last_checkpoint, "take_checkpoint", lambda *_: next(numbers))
    monkeypatch.setattr(last_checkpoint, "holds_records_in_flight", lambda _: False)
    cluster: Any = Cluster(completed(3))
    with pytest.raises(RequestError, match="from an earlier start"):
        last_checkpoint.take_source_checkpoint(cluster, "job", checkpoints)
    assert last_checkpoint.take_source_checkpoint(cluster, "job", checkpoints) == 8, (
        "Flink's answer about it may be old"
    )


def test_checkpoints_of_the_running_job_pass(checkpoints: str) -> None:
    for answers in ([completed(8)], [completed(5), completed(9)], [restored(8)]):
        cluster: Any = Cluster(*answers)
        refuse_checkpoints_of_earlier_start(cluster, "job", checkpoints)


def test_checkpoint_that_flink_deletes_during_the_check_passes(checkpoints: str) -> None:
    class Deleting(Cluster):
        def latest_checkpoints(self, job_id: str) -> LatestCheckpoints | None:
            (Path(checkpoints) / "chk-8" / "_metadata").unlink(missing_ok=True)
            return super().latest_checkpoints(job_id)

    cluster: Any = Deleting(completed(3))
    refuse_checkpoints_of_earlier_start(cluster, "job", checkpoints)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("500", 0.5), ("500 ms", 0.5), ("500 millis", 0.5), ("4000 µs", 0.004), ("7 nanoseconds", 7e-9)),
        *(("3 s", 3), ("1 second", 1), ("90 seconds", 90), ("2min", 120), ("10m", 600), ("10 minutes", 600)),
        *(("1 H", 3600), ("2 hours", 7200), ("1 d", 86400), ("2days", 172800), ("PT3S", 60)),
    ],
)
def test_durations_of_flink_are_parsed(text: str, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds)
