"""Times at which a window closes and opens, also in nights when clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pendulum
import pytest
from airflow.timetables.base import DataInterval, TimeRestriction
from airflow.timetables.trigger import CronTriggerTimetable

from rescale.airflow.windows.closing import closing_time

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
