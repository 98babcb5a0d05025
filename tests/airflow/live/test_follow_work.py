"""The end of the task that follows a job: nothing of the follower stays beside the published result."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock, Mock

import pytest

from rescale.airflow.live import follow_work
from rescale.airflow.live.follow_work import _follow_until_cut, _report_and_remove_rounds
from rescale.runstate.follower.rounds import FollowedJob, begin_following, followed_job
from rescale.text.errors import RequestError
from support.pipeline import plan_rescale
from support.snapshots import directory


def test_plan_of_the_last_round_is_judged_before_the_job_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it needs an approval that the plans before it did not need, the job runs on until there is one."""
    for name in ("open_flink", "AnswerWatch"):
        monkeypatch.setattr(follow_work, name, MagicMock())
    watch, cut = MagicMock(has_rounds=False), Mock()
    calls = Mock()
    calls.attach_mock(watch.follow, "follow")
    calls.attach_mock(watch.note_required_approval, "note_required_approval")
    calls.attach_mock(watch.waits_for, "waits_for")
    calls.attach_mock(cut.cancel, "cancel")
    watch.waits_for.side_effect = ["an approval", None]
    assert _follow_until_cut(watch, cut) is cut.cancel.return_value
    attempt = ["follow", "note_required_approval", "waits_for"]
    assert [name for name, *_ in calls.mock_calls] == [*attempt, *attempt, "cancel"]
    watch.note_required_approval.assert_called_with(cut.plan)


def test_rounds_are_removed_although_the_report_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The new job runs, so the task does not fail, and no later try would remove them."""
    plan = plan_rescale(directory("2-clicks"), str(tmp_path / "target"), ["3"])
    begin_following(plan.target, FollowedJob("/checkpoints", {}), accept_unconditional=False)
    monkeypatch.setattr(follow_work, "put_report", Mock(side_effect=RequestError("access is denied")))
    _report_and_remove_rounds(plan, None, Mock())
    assert "the job was handed over, but access is denied" in caplog.text
    assert followed_job(plan.target) is None
