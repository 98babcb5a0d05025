"""A cut-over waits for a short round, a time and an approval, and does not begin after its window has closed."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rescale.airflow.flink.job_record import Phase
from rescale.airflow.forms.live_form import CutOverRule, LiveRequest
from rescale.airflow.live import watch as watch_module
from rescale.airflow.live.watch import Watch, WindowClosedError
from rescale.airflow.settings import ApprovalRules, PlansToApprove, Settings
from rescale.airflow.steps import required_approval
from rescale.airflow.steps.earlier_tasks import ROUNDS_KEY
from rescale.flink_rest.running_job import JobOverview
from rescale.runstate.approval import decide_cut_over
from rescale.runstate.follower.rounds import Round, RoundKind
from rescale.snapshot.surgery import NO_SURGERY
from rescale.storage.locations import name
from rescale.text.errors import RequestError
from support import snapshots
from support.deferring import TaskState
from support.pipeline import plan_rescale

NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)
RUN = {"run": "a"}
ROUND = Round(2, 7, RoundKind.ROUND, 3, None, 1, 1, 10, 20, 1.0, 0.0, 2.0, 2.0)


def watch(
    target: object = "/target", previous_seconds: float | None = 2.0, state: TaskState | None = None, **live: Any
) -> Watch:
    values = {
        "refers_to_source": False,
        "cut_over_rule": CutOverRule.READY,
        "not_before": None,
        "most_downtime_seconds": None,
    }
    request = LiveRequest(**{**values, "give_up_seconds": 300, "most_bytes_per_second": None, **live})
    follower: Any = SimpleNamespace(target=str(target), newest_round=lambda: None, run_identity=RUN)
    watching = Watch(None, follower, request, {}, None, state or TaskState(), None, None, previous_seconds)  # type: ignore[arg-type]
    watching._checked_checkpoint_numbers = {None, ROUND.checkpoint}
    return watching


def round_of(seconds: float | None, kind: RoundKind = RoundKind.ROUND) -> Round:
    return Round(**{**vars(ROUND), "last_round_seconds": seconds, "kind": kind})


@pytest.mark.parametrize(
    ("before", "most", "last", "short"),
    [
        (None, None, 20.0, False),  # no round before to compare with
        (None, None, 1.0, False),
        (None, 2.0, 1.0, False),
        (100.0, None, 20.0, False),  # the next round may be shorter still
        (21.0, None, 20.0, True),
        (10.0, None, 20.0, True),
        (100.0, None, 5.0, True),
        (100.0, 2.0, 2.0, True),
        (2.0, 1.9, 2.0, False),
        (2.0, 5.0, None, False),
    ],
)
def test_last_round_is_short_by_its_limit_or_if_it_no_longer_shrinks(
    before: float | None, most: float | None, last: float | None, short: bool
) -> None:
    watching = watch(previous_seconds=before, most_downtime_seconds=most)
    assert watching.is_last_round_short(round_of(last)) is short
    assert (watching.waits_for(round_of(last)) is None) is short
    assert not watching.is_last_round_short(round_of(last, RoundKind.BASE))


@pytest.mark.parametrize("phase", [None, *Phase])
@pytest.mark.parametrize("is_replaced", [True, False])
def test_redeployed_job_is_not_followed_though_it_has_the_id_of_the_cancelled_one(
    phase: Phase | None, is_replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The try that has redeployed the job was killed while the job started."""
    running = SimpleNamespace(job_overview=lambda _: JobOverview("1" * 32, "clicks", "RUNNING"))
    monkeypatch.setattr(watch_module, "open_flink", lambda _: nullcontext(running))
    monkeypatch.setattr(Watch, "record", SimpleNamespace(phase=phase))
    watching = watch()
    watching.old_job = SimpleNamespace(flink="flink", job_id="1" * 32, is_replaced=is_replaced)  # type: ignore[assignment]
    assert watching.is_cancelled() is (phase is not None and is_replaced)


def test_cut_over_waits_for_its_earliest_time() -> None:
    later, earlier = NOW + HOUR, NOW - HOUR
    assert watch(most_downtime_seconds=5, not_before=earlier).waits_for(ROUND) is None
    assert watch(most_downtime_seconds=5, not_before=later).waits_for(ROUND) == f"{later:%Y-%m-%d %H:%M} UTC"
    watching = watch(most_downtime_seconds=5)
    watching.opens_at = later
    assert watching.waits_for(ROUND) == f"{later:%Y-%m-%d %H:%M} UTC"


def test_cut_over_waits_for_an_approval_and_ends_if_it_is_refused(tmp_path: Any) -> None:
    for approved in (True, False):
        target = tmp_path / str(approved)
        watching = watch(target, most_downtime_seconds=5, cut_over_rule=CutOverRule.APPROVED)
        assert watching.waits_for(ROUND) == "an approval"
        assert watching.waits_for(None) == "an approval", "no approval is needed without rounds"
        decide_cut_over(str(target), RUN, "said so", is_approved=approved)
        if approved:
            assert watching.waits_for(ROUND) is None
            continue
        with pytest.raises(RequestError) as caught:
            watching.waits_for(ROUND)
        assert "said so" in str(caught.value.found)


@pytest.mark.parametrize("later", [{"not_before": NOW + HOUR}, {"most_downtime_seconds": 1}])
def test_cut_over_that_is_given_up_is_not_waited_for(later: dict[str, Any], tmp_path: Path) -> None:
    """The question may come before the window opens, and rounds may get longer after it has come."""
    watching = watch(tmp_path / "target", cut_over_rule=CutOverRule.APPROVED, **later)
    assert watching.waits_for(ROUND) not in (None, "an approval")
    decide_cut_over(str(tmp_path / "target"), RUN, "given up", is_approved=False)
    with pytest.raises(RequestError, match="the cut-over is given up"):
        watching.waits_for(ROUND)


def plan_of(gigabytes: float, base: float = 0) -> Any:
    totals = {"bytes_moved": int(gigabytes * 1e9), "base_bytes": int(base * 1e9)}
    return SimpleNamespace(**totals, surgery=NO_SURGERY, mixed_maxima=())


@pytest.fixture
def _above_one_gigabyte(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(approval=ApprovalRules(required=PlansToApprove(above_gigabytes=1)))
    monkeypatch.setattr(required_approval, "settings", lambda: settings)


@pytest.mark.usefixtures("_above_one_gigabyte")
@pytest.mark.parametrize(
    ("larger", "clause"),
    [
        (plan_of(1.1), "the plan writes 1.1 GB"),
        (plan_of(0.2, base=0.9), "the plan and the rounds before it write 1.1 GB"),
    ],
    ids=["new base", "round"],
)
def test_state_that_grows_above_the_limit_of_the_settings_waits_for_an_approval(
    larger: Any, clause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    plans, read = {"7": plan_of(0.9), "9": larger, "12": plan_of(0.9)}, list[str]()

    def certified(uri: str) -> Any:
        read.append(name(uri))
        return plans[name(uri)]

    monkeypatch.setattr(watch_module, "certified_plan", certified)
    watching = watch(tmp_path / "target", most_downtime_seconds=5)
    watching._checked_checkpoint_numbers.clear()
    watching.params = {"require_approval": False}
    assert watching.waits_for(ROUND) is None
    for checkpoint in (9, 12, 9):  # the question may be open, so a smaller round does not end the wait
        assert watching.waits_for(replace(ROUND, checkpoint=checkpoint)) == "an approval"
    assert read == ["7", "9"]
    assert f"require it above 1 GB, and {clause}" in caplog.text
    decide_cut_over(str(tmp_path / "target"), RUN, "said so", is_approved=True)
    assert watching.waits_for(replace(ROUND, checkpoint=12)) is None


@pytest.mark.usefixtures("_above_one_gigabyte")
def test_state_that_has_grown_before_the_last_round_waits_for_an_approval() -> None:
    """No rounds are made, and the job has run since the first plan, for example until its window opened."""
    watching = watch()
    watching.params = {"require_approval": False}
    watching.note_required_approval(plan_of(0.9))
    assert watching.waits_for(None) is None
    watching.note_required_approval(plan_of(1.1))
    assert watching.waits_for(None) == "an approval"


def test_approval_that_an_earlier_try_needed_is_needed_by_the_next() -> None:
    """Its question may be open, and the newest round may be smaller than the one that it was asked about."""
    state = TaskState({ROUNDS_KEY: {"asks": True}})
    assert watch(state=state).waits_for(ROUND) == "an approval"
    state.set(ROUNDS_KEY, {"asks": False})
    assert watch(state=state).waits_for(ROUND) is None


def test_cut_over_is_given_up_although_the_newest_base_needs_no_approval(tmp_path: Path) -> None:
    """The question was asked by an earlier try of the task, about a larger base."""
    watching = watch(tmp_path / "target", most_downtime_seconds=5)
    decide_cut_over(str(tmp_path / "target"), RUN, "given up by ada", is_approved=False)
    with pytest.raises(RequestError, match="the cut-over is given up"):
        watching.waits_for(ROUND)


@pytest.mark.parametrize("rule", CutOverRule)
@pytest.mark.parametrize("approved", [True, False])
def test_decision_in_another_run_does_not_hold(
    rule: CutOverRule, approved: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question of the aborted run was about an earlier round. The rounds of that run stay for this run."""
    watching = watch(tmp_path / "target", most_downtime_seconds=5, cut_over_rule=rule)
    decide_cut_over(str(tmp_path / "target"), {"run": "another"}, "said so", is_approved=approved)
    monkeypatch.setattr(watching, "refuse_ended_job", lambda: None)
    if rule is CutOverRule.READY:
        assert watching.waits_for(ROUND) is None
        return
    for ask in (watching.follow, lambda: watching.waits_for(ROUND)):
        with pytest.raises(RequestError, match="and the job was left alone") as caught:
            ask()
        assert ("another run" in caught.value.what) is approved
        assert "run another" in str(caught.value.found)


def test_one_plan_of_a_checkpoint_answers_all_questions_before_a_cut_over(tmp_path: Path) -> None:
    """The plan says whether rounds are made and an approval is needed, and is reused for the first copies."""
    plan, plans = plan_rescale(snapshots.directory("2-rocksdb-native"), str(tmp_path / "target"), ["3"]), list[str]()

    def plan_full(checkpoint: str, *, copies_ahead: bool) -> Any:
        plans.append(f"{checkpoint} {copies_ahead}")
        return SimpleNamespace(plan=replace(plan, source=checkpoint))

    (tmp_path / "chk-3").mkdir()
    (tmp_path / "chk-3" / "_metadata").touch()
    watching = watch()
    watching.old_job = SimpleNamespace(directory=str(tmp_path))  # type: ignore[assignment]
    watching.params = {"require_approval": False}
    vars(watching.follower)["plan_full"] = plan_full
    watching._checked_checkpoint_numbers.clear()
    assert not watching.has_rounds
    assert not watching.needs_approval(None)
    assert watching._plan_full(f"{tmp_path}/chk-3").source == f"{tmp_path}/chk-3"
    assert plans == [f"{tmp_path}/chk-3 True"]
    assert watching._plan_full(f"{tmp_path}/chk-4").source == f"{tmp_path}/chk-4"


def test_cut_over_is_refused_after_its_window_has_closed() -> None:
    watching = watch(most_downtime_seconds=5)
    watching.closes_at = NOW - HOUR
    vars(watching.follower)["newest_round"] = lambda: ROUND
    with pytest.raises(WindowClosedError, match="the window closed") as caught:
        watching.waits_for(ROUND)
    assert caught.value.found == "round 2; a last round would take about 2 seconds"


def test_long_pause_ends_with_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause keeps the rate of rounds below its limit, and may be longer than the window."""
    watching = watch(most_downtime_seconds=1, most_bytes_per_second=1)
    watching.closes_at = NOW - HOUR
    monkeypatch.setattr(watching, "refuse_ended_job", lambda: None)
    with pytest.raises(WindowClosedError, match="the window closed"):
        watching._pause(ROUND)


def test_no_base_is_begun_after_the_window_has_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    watching = watch()
    watching.closes_at = NOW - HOUR
    monkeypatch.setattr(watching, "refuse_ended_job", lambda: None)
    with pytest.raises(WindowClosedError, match="the window closed") as caught:
        watching.follow()
    assert caught.value.found == "no round"


def test_later_decision_does_not_replace_the_first(tmp_path: Any) -> None:
    target = str(tmp_path / "target")
    first = decide_cut_over(target, RUN, "no", is_approved=False)
    assert decide_cut_over(target, {"run": "b"}, "yes", is_approved=True) == first
