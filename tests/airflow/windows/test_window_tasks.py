"""Hours of a window: a manual run outside of them is skipped, unless its form asks for it."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from types import SimpleNamespace
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.utils.types import DagRunType

from rescale.airflow.windows import window_tasks
from rescale.airflow.windows.closing import WindowHours
from rescale.airflow.windows.window import OUTSIDE_HOURS
from rescale.airflow.windows.window_tasks import opened_window

NOW = datetime(2026, 11, 28, 3, tzinfo=UTC)
HOUR = timedelta(hours=1)

_STARTED_BY_SOMEBODY = ["manual", "operator_triggered", "asset_materialization"]
"""Types of runs that the schedule did not start. Airflow 3.1 calls all of these `manual`."""


@pytest.fixture(autouse=True)
def _no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip only the task itself, because without a context the tasks after it are unknown."""

    def skip(why: str) -> NoReturn:
        raise AirflowSkipException(why)

    monkeypatch.setattr(window_tasks, "skip_task", skip)


def open_window_task(
    opens: datetime,
    closes: datetime,
    run_type: str,
    begins_before: timedelta = timedelta(),
    began: datetime = NOW,
    now: datetime | None = None,
    **form: Any,
) -> dict[str, Any]:
    """Return the output of the first task of a run that starts at once; the window opens and closes every day."""
    params = {"target": "/rescaled/{date}-{time}", OUTSIDE_HOURS: False, **form}
    hours = WindowHours(
        f"{opens.minute} {opens.hour} * * *", time(closes.hour, closes.minute), begins_before, ZoneInfo("UTC")
    )
    run = SimpleNamespace(run_after=began, run_type=run_type, dag_id="rescale_night", run_id="a-run")
    return opened_window("night", hours, params, run, None, now or began)


@pytest.mark.parametrize("run_type", ["manual", "scheduled"])
def test_run_within_the_hours_gets_their_end(run_type: str) -> None:
    document = open_window_task(NOW - HOUR, NOW + HOUR, run_type)
    assert document == {"target": "/rescaled/2026-11-28-0300", "closes": (NOW + HOUR).isoformat()}


@pytest.mark.parametrize("run_type", ["manual", "scheduled"])
def test_run_that_begins_before_the_opening_gets_its_time(run_type: str) -> None:
    opens, closes = NOW + 3 * HOUR, NOW + 4 * HOUR
    document = open_window_task(opens, closes, run_type, 3 * HOUR)
    assert (document["opens"], document["closes"]) == (opens.isoformat(), closes.isoformat())
    logical_time = opens if run_type == "scheduled" else NOW
    assert document["target"] == f"/rescaled/{logical_time:%Y-%m-%d-%H%M}", "a target is named by the opening"


def test_every_type_of_run_belongs_to_the_schedule_or_to_somebody() -> None:
    """A window has no schedule on assets."""
    assert {*DagRunType} - {*_STARTED_BY_SOMEBODY, "scheduled", "backfill"} == {DagRunType.ASSET_TRIGGERED}


def test_backfill_has_the_hours_of_its_own_window() -> None:
    with pytest.raises(AirflowSkipException, match="too late: the window opened at 2026-11-28 03:00 UTC"):
        open_window_task(NOW, NOW + HOUR, "backfill", now=NOW + 48 * HOUR)


def test_run_that_is_late_has_the_hours_of_its_own_window() -> None:
    opens, closes = NOW + 3 * HOUR, NOW + 4 * HOUR
    document = open_window_task(opens, closes, "scheduled", 3 * HOUR, now=NOW + 3.5 * HOUR)
    assert document["opens"] == opens.isoformat()
    with pytest.raises(AirflowSkipException, match="too late: the window opened at 2026-11-28 06:00 UTC"):
        open_window_task(opens, closes, "scheduled", 3 * HOUR, now=NOW + 4.1 * HOUR)


def test_manual_run_before_the_early_beginning_belongs_to_the_last_window() -> None:
    with pytest.raises(AirflowSkipException, match="closed at 2026-11-27 07:00 UTC"):
        open_window_task(NOW + 3 * HOUR, NOW + 4 * HOUR, "manual", 2 * HOUR)


def test_manual_run_outside_the_hours_may_cut_over_at_once() -> None:
    assert "opens" not in open_window_task(NOW + 3 * HOUR, NOW + 4 * HOUR, "manual", HOUR, **{OUTSIDE_HOURS: True})


@pytest.mark.parametrize("run_type", _STARTED_BY_SOMEBODY)
def test_manual_run_outside_the_hours_is_skipped(run_type: str) -> None:
    with pytest.raises(AirflowSkipException, match=OUTSIDE_HOURS):
        open_window_task(NOW - 3 * HOUR, NOW - HOUR, run_type)


@pytest.mark.parametrize("run_type", _STARTED_BY_SOMEBODY)
def test_manual_run_outside_the_hours_is_executed_if_its_form_asks_for_it(run_type: str) -> None:
    document = open_window_task(NOW - 3 * HOUR, NOW - HOUR, run_type, **{OUTSIDE_HOURS: True})
    assert datetime.fromisoformat(document["closes"]) == NOW + 23 * HOUR


def test_window_that_never_opens_is_closed() -> None:
    form = {"target": "/rescaled/{date}", OUTSIDE_HOURS: False}
    run = SimpleNamespace(run_after=NOW, run_type="manual")
    hours = WindowHours("0 0 31 2 *", time(6), timedelta(), ZoneInfo("UTC"))
    with pytest.raises(AirflowSkipException, match="never been open"):
        opened_window("night", hours, form, run, None, NOW)


@pytest.mark.parametrize("is_stopped", [True, False])
def test_run_that_has_stopped_its_job_goes_on_after_the_window_has_closed(
    is_stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its tasks were cleared. If it was skipped, it would be green, and nothing would start the job again."""
    runs: list[str] = []
    monkeypatch.setattr(window_tasks, "stopped_job", lambda run: runs.append(run) or (object() if is_stopped else None))
    hours = {"began": NOW - 2 * HOUR, "now": NOW, "job": "clicks"}
    if is_stopped:
        assert open_window_task(NOW - 2 * HOUR, NOW - HOUR, "scheduled", **hours)["closes"] == (NOW - HOUR).isoformat()
    else:
        with pytest.raises(AirflowSkipException, match="too late"):
            open_window_task(NOW - 2 * HOUR, NOW - HOUR, "scheduled", **hours)
    assert runs == ["rescale_night/a-run"]


@pytest.mark.parametrize("lead", [timedelta(), 2 * HOUR])
def test_window_whose_hours_the_clock_skips_is_not_open(lead: timedelta) -> None:
    """It must not be open until the next night instead."""
    opens = datetime(2026, 3, 29, 1, tzinfo=UTC)
    hours = WindowHours("0 2 * * *", time(3), lead, ZoneInfo("Europe/Berlin"))
    run = SimpleNamespace(run_after=opens - lead, run_type="scheduled", dag_id="rescale_night", run_id="a-run")
    form = {"target": "/rescaled/{date}", OUTSIDE_HOURS: False}
    with pytest.raises(AirflowSkipException, match="from 2026-03-29 02:00 CET until 2026-03-29 03:00 CEST"):
        opened_window("night", hours, form, run, None, run.run_after)
