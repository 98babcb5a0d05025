"""Times at which a window closes and opens, also in nights when clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pendulum
import pytest
from airflow.timetables.base import DataInterval, TimeRestriction
from airflow.timetables.trigger import CronTriggerTimetable

from rescale.airflow.windows.closing import WindowHours, closing_time

BERLIN = ZoneInfo("Europe/Berlin")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("opened", "closes", "closed"),
    [
        ("2026-01-10 05:00", "07:30", "2026-01-10 06:30"),  # an ordinary morning, UTC+1
        ("2026-07-10 04:00", "07:30", "2026-07-10 05:30"),  # UTC+2
        ("2026-01-10 21:00", "02:00", "2026-01-11 01:00"),  # over midnight
        ("2026-01-10 06:30", "07:30", "2026-01-11 06:30"),  # opened at its closing time: a whole day
        ("2026-03-29 00:00", "04:00", "2026-03-29 02:00"),  # from 2 to 3 o'clock no time passes
        ("2026-03-29 00:00", "02:30", "2026-03-29 01:30"),  # a time that is skipped: half an hour after 2
        ("2026-10-24 23:00", "04:00", "2026-10-25 03:00"),  # the hour from 2 to 3 passes twice
        ("2026-10-24 23:00", "02:30", "2026-10-25 00:30"),  # the first of two times
        ("2026-10-25 00:45", "02:30", "2026-10-25 01:30"),  # the second, if opened after the first
    ],
)
def test_window_closes_at_the_next_closing_time_on_the_clock(opened: str, closes: str, closed: str) -> None:
    closed_at = closing_time(utc(opened), time.fromisoformat(closes), BERLIN)
    assert closed_at.astimezone(UTC) == utc(closed)
    assert closed_at.tzinfo is BERLIN


@pytest.mark.parametrize(
    ("schedule", "day", "opened"),
    [
        ("0 6 * * *", "2026-03-28", "2026-03-28 05:00"),
        ("0 6 * * *", "2026-03-29", "2026-03-29 04:00"),
        ("0 6 * * *", "2026-10-25", "2026-10-25 05:00"),
        ("30 2 * * *", "2026-03-29", "2026-03-29 01:30"),  # a time that is skipped: opens once nevertheless
        ("30 2 * * *", "2026-10-25", "2026-10-25 01:30"),  # a time that passes twice: opens once, at the second
    ],
)
def test_airflow_opens_a_window_by_local_time(schedule: str, day: str, opened: str) -> None:
    timetable = CronTriggerTimetable(schedule, timezone="Europe/Berlin")
    midnight = pendulum.instance(datetime.fromisoformat(day).replace(tzinfo=BERLIN).astimezone(UTC))
    before = DataInterval.exact(midnight - timedelta(minutes=1))
    anytime = TimeRestriction(earliest=None, latest=None, catchup=True)
    opening = timetable.next_dagrun_info(last_automated_data_interval=before, restriction=anytime)
    assert opening is not None
    assert opening.run_after == utc(opened)


@pytest.mark.parametrize(
    ("schedule", "closes", "opened", "closed"),
    [
        ("0 2 * * *", "03:00", "01:00", "2026-03-29 01:00"),  # no time passes from 2 to 3 o'clock
        ("30 2 * * *", "03:15", "01:30", "2026-03-29 01:15"),  # closed before Airflow starts the run, at 3:30
        ("30 2 * * *", "04:00", "01:30", "2026-03-29 02:00"),
        ("30 2 * * *", "02:45", "01:30", "2026-03-29 01:45"),  # the clock skips both times
        ("30 2 * * *", "02:15", "01:30", "2026-03-30 00:15"),  # closes on the next day
        ("30 3 * * *", "03:15", "01:30", "2026-03-30 01:15"),  # the clock does not skip the opening
    ],
)
@pytest.mark.parametrize("lead", [timedelta(), timedelta(hours=2)])
def test_window_whose_opening_the_clock_skips_closes_on_time(
    schedule: str, closes: str, opened: str, closed: str, lead: timedelta
) -> None:
    hours = WindowHours(schedule, time.fromisoformat(closes), lead, BERLIN)
    opening = hours.opening_time(utc(f"2026-03-29 {opened}") - lead, is_scheduled=True)
    assert opening is not None
    assert opening.astimezone(UTC) == utc(f"2026-03-29 {opened}")
    assert hours.closing_time(opening).astimezone(UTC) == utc(closed)


@pytest.mark.parametrize("started", ["2026-10-25 00:30", "2026-10-25 01:30", "2026-06-01 09:17"])
def test_window_of_a_scheduled_run_opens_when_the_run_was_due(started: str) -> None:
    """Even if the hour passes twice, or if the schedule in the file is another one by now."""
    hours = WindowHours("30 2 * * *", time(4), timedelta(), BERLIN)
    opening = hours.opening_time(utc(started), is_scheduled=True)
    assert opening is not None
    assert opening.astimezone(UTC) == utc(started)
