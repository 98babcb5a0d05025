"""The report of a followed job has the sentences about the cut-over."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rescale.airflow.flink.last_checkpoint import REPEATED_RECORDS
from rescale.airflow.live.round_display import RoundDisplay
from rescale.airflow.reports.report_link import REPORT_KEY, ReportPage
from rescale.following.follower import Follower
from rescale.runstate.follower.rounds import FollowedJob, Round, RoundKind
from support.checkpoints import checkpoints_in
from support.deferring import TaskState


def test_plan_in_the_report_says_what_is_processed_again(tmp_path: Path, monkeypatch: Any) -> None:
    job = checkpoints_in("2-rocksdb-incremental", str(tmp_path / "job"), tmp_path / "scratch")
    shape = {"parallelism": ["3"], "max-parallelism": ["1000"], "key-hash": [], "uids": None, "allow-prefix": []}
    follower = Follower(str(tmp_path / "target"), FollowedJob(job.directory, shape), {}, lambda *_: None, print)
    monkeypatch.setattr(RoundDisplay, "_put", lambda *_: None)
    pushed, before = TaskState(), SimpleNamespace(directory=job.directory)
    display = RoundDisplay(before, follower, SimpleNamespace(xcom_push=pushed.set), TaskState())  # type: ignore[arg-type]
    followed_round = Round(1, 3, RoundKind.ROUND, 3, None, 1, 1, 10, 20, 1.0, 0.0, 2.0, 2.0)
    display.show(followed_round, "an approval", is_short=True, needs_approval=True)
    page = unescape(ReportPage(**pushed[REPORT_KEY]).html(1_000_000).decode())
    assert REPEATED_RECORDS in page
