"""Airflow begins the runs of a window before the window opens, and can store the timetable and load it again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib.metadata import entry_points
from zoneinfo import ZoneInfo

import pendulum
import pytest
from airflow.serialization import serialized_objects
from airflow.timetables.base import DataInterval, TimeRestriction

from rescale.airflow.windows.dags import window_dag
from rescale.airflow.windows.early_timetable import EarlyTimetable, WindowsPlugin
from rescale.airflow.windows.window import read_entry

WINDOW = {
    "schedule": "0 3 * * SUN",
    "timezone": "Europe/Berlin",
    "closes": "05:00",
    "begins_before": "4h",
    "flink": "session",
    "job": "clicks",
    "taking": "checkpoint",
    "while_it_runs": True,
    "target": "/rescaled/{window}-{date}",
    "parallelism": 8,
    "hand_over": "jar",
    "jar": "counts.jar",
}


def berlin(text: str) -> pendulum.DateTime:
    return pendulum.instance(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC))


def beginnings(timetable: EarlyTimetable, after: pendulum.DateTime, *, catchup: bool, runs: int = 2) -> list[datetime]:
    """Return the times at which the next runs begin after the run of the opening time `after`."""
    last, times = DataInterval.exact(after), []
    for _ in range(runs):
        info = timetable.next_dagrun_info(
            last_automated_data_interval=last, restriction=TimeRestriction(None, None, catchup=catchup)
        )
        assert info is not None
        assert info.data_interval is not None
        last = info.data_interval
        times.append(info.run_after)
    return times


@pytest.mark.parametrize(
    ("before", "first", "second"),
    [
        ("2026-11-21 22:59", "2026-11-21 23:00", "2026-11-28 23:00"),
        ("2026-11-21 23:00", "2026-11-28 23:00", "2026-12-05 23:00"),
        ("2026-11-22 01:00", "2026-11-28 23:00", "2026-12-05 23:00"),
        ("2026-10-18 12:00", "2026-10-25 00:00", "2026-10-31 23:00"),  # four hours, in a night with an hour more
        ("2027-03-21 12:00", "2027-03-27 22:00", "2027-04-03 23:00"),  # an hour that is skipped
    ],
)
def test_run_begins_hours_before_the_opening(before: str, first: str, second: str) -> None:
    timetable = EarlyTimetable("0 3 * * SUN", "Europe/Berlin", timedelta(hours=4))
    assert beginnings(timetable, berlin(before), catchup=True) == [berlin(first), berlin(second)]


def test_run_that_began_is_not_repeated_before_the_opening() -> None:
    """Without `catchup`, Airflow also looks at the opening before the current time."""
    timetable = EarlyTimetable("0 0 1 1 *", "UTC", timedelta(hours=4))
    year = datetime.now(UTC).year
    began_at = pendulum.datetime(year, 12, 31, 20)
    assert beginnings(timetable, began_at, catchup=False, runs=1) == [pendulum.datetime(year + 1, 12, 31, 20)]


def test_no_run_begins_after_the_last_one() -> None:
    timetable = EarlyTimetable("0 3 * * *", "UTC", timedelta(hours=4))
    end = pendulum.datetime(2026, 11, 21, 22)
    until = TimeRestriction(earliest=None, latest=end, catchup=True)
    last = DataInterval.exact(pendulum.datetime(2026, 11, 20, 23))
    assert timetable.next_dagrun_info(last_automated_data_interval=last, restriction=until) is None


def test_airflow_stores_the_schedule_of_a_window() -> None:
    window, errors = read_entry("night", WINDOW)
    assert window is not None, errors
    name = "DagSerialization" if hasattr(serialized_objects, "DagSerialization") else "SerializedDAG"  # Airflow 3.1
    serialization = getattr(serialized_objects, name)
    dag = window_dag(window)
    assert "Its runs begin 4 hours earlier" in (dag.doc_md or "")
    stored = serialization.from_dict(serialization.to_dict(dag)).timetable
    assert isinstance(stored, EarlyTimetable)
    assert stored.serialize() == {"schedule": "0 3 * * SUN", "timezone": "Europe/Berlin", "begins_before": 14400.0}
    assert stored.summary == "0 3 * * SUN, 4 hours before"
    assert "Sunday" in stored.description


def test_airflow_finds_the_plugin_by_its_entry_point() -> None:
    plugins = [entry.load() for entry in entry_points(group="airflow.plugins") if entry.name == "rescale_windows"]
    assert plugins == [WindowsPlugin]
