"""An entry of the file of windows is accepted as a whole, or refused with the name of the wrong field."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

from rescale.airflow.forms.filled_form import request_of
from rescale.airflow.forms.form import rescale_form
from rescale.airflow.settings import SETTINGS_VARIABLE, settings
from rescale.airflow.windows.targets import target_of
from rescale.airflow.windows.window import OUTSIDE_HOURS, RESERVED_NAMES, Window, read_entry
from rescale.demo.airflow_home import dag_folder
from rescale.text.errors import RequestError

ENTRY = {
    "schedule": "0 6 * * MON-FRI",
    "timezone": "Europe/Berlin",
    "closes": "07:30",
    "source": "s3://state/savepoints",
    "target": "s3://state/rescaled/{window}-{date}",
    "parallelism": 8,
}


def make_window(name: Any, entry: Any) -> Window:
    window, errors = read_entry(name, entry)
    assert window is not None, errors
    assert errors == []
    return window


def fault(name: Any, entry: Any) -> RequestError:
    """Return the only error of an invalid entry."""
    window, (error,) = read_entry(name, entry)
    assert window is None
    return error


def test_valid_entry_becomes_a_window() -> None:
    window = make_window("clicks-out", ENTRY)
    assert window.dag_id == "rescale_clicks-out"
    assert (window.schedule, window.timezone, window.closes) == ("0 6 * * MON-FRI", "Europe/Berlin", time(7, 30))
    window.timetable.validate()
    assert window.zone.key == "Europe/Berlin"


def test_form_of_a_window_has_its_values_and_the_found_savepoint_overrides_them() -> None:
    form = make_window("clicks-out", {**ENTRY, "require_approval": True}).form()
    assert form.keys() == {*rescale_form(), OUTSIDE_HOURS}
    assert "null" in form[OUTSIDE_HOURS].schema["type"]  # not marked as required
    assert {name: form[name].value for name in ("parallelism", "require_approval", "approval_minutes")} == {
        "parallelism": 8,
        "require_approval": True,
        "approval_minutes": 120,
    }
    params = {name: param.resolve() for name, param in form.items()}
    request = request_of(params, {"source": "s3://state/savepoints/savepoint-1", "target": "/rescaled"})
    assert (request.source, request.target) == ("s3://state/savepoints/savepoint-1", "/rescaled")
    assert request.parallelism == {"": 8}


def test_target_names_the_window_and_its_opening_time() -> None:
    opened = datetime(2026, 3, 29, 3, 5)
    assert target_of("/a/{window}/{date}-{time}", "night", opened) == "/a/night/2026-03-29-0305"


JOB = {
    **{name: value for name, value in ENTRY.items() if name != "source"},
    "flink": "http://jobmanager:8081",
    "job": "clicks",
    "savepoints": "s3://state/savepoints",
    "taking": "stop",
    "hand_over": "jar",
    "jar": "clicks.jar",
}


def test_window_may_name_a_running_job_instead_of_savepoints() -> None:
    window = make_window("clicks-out", JOB)
    assert (window.has_job, make_window("clicks-out", ENTRY).has_job) == (True, False)
    assert window.form()["job"].value == "clicks"
    assert "source" not in window.form()


@pytest.mark.parametrize("field", ["flink", "savepoints", "target"])
def test_missing_field_of_a_job_is_named(field: str) -> None:
    error = fault("night", {name: value for name, value in JOB.items() if name != field})
    assert error.what == f"the window 'night' is not valid: {field}"


def test_format_of_the_savepoint_is_a_field_of_jobs_only() -> None:
    assert make_window("night", {**JOB, "savepoint_format": "native"}).form()["savepoint_format"].value == "native"
    assert "'fast' is not one of ['canonical', 'native']" in str(
        fault("night", {**JOB, "savepoint_format": "fast"}).found
    )
    error = fault("night", {**ENTRY, "savepoint_format": "native"})
    assert error.what == "the window 'night' is not valid: savepoint_format"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"jar": " "}, "the hand-over 'jar' needs the field 'jar'"),
        ({"hand_over": "deployment"}, "the hand-over 'deployment' needs the field 'deployment'"),
        ({"taking": "run on"}, "the job would run twice"),
        ({"hand_over": "print"}, "the run would stop the job, but could not start it again"),
    ],
)
def test_job_that_would_not_run_again_is_refused_before_its_window_opens(fields: dict[str, str], reason: str) -> None:
    error = fault("night", {**JOB, **fields})
    assert error.what == "the window 'night' is not valid: its hand-over"
    assert str(error.found).startswith(reason)


def test_missing_field_of_a_job_may_come_from_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "settings.yaml").write_text("form: {hand_over: jar, jar: clicks.jar}")
    monkeypatch.setenv(SETTINGS_VARIABLE, str(tmp_path / "settings.yaml"))
    monkeypatch.setattr("rescale.airflow.windows.window.settings", settings.__wrapped__)
    entry = {name: value for name, value in JOB.items() if name not in ("hand_over", "jar")}
    assert make_window("night", entry).form()["jar"].value == "clicks.jar"


LIVE = {**JOB, "taking": "checkpoint", "while_it_runs": True}


@pytest.mark.parametrize(
    ("begins_before", "before"), [("3h", timedelta(hours=3)), ("90m", timedelta(minutes=90)), (None, timedelta())]
)
def test_rounds_may_begin_before_a_window_opens(begins_before: str | None, before: timedelta) -> None:
    window = make_window("night", LIVE if begins_before is None else {**LIVE, "begins_before": begins_before})
    assert window.begins_before == before
    assert "begins_before" not in window.form()
    assert window.hours.schedule == "0 6 * * MON-FRI"


@pytest.mark.parametrize("begins_before", ["3", "0h", "3 h", "-3h", "3d", "1h30m", "99999h", "", 3, None, True])
def test_time_before_the_opening_is_hours_or_minutes(begins_before: Any) -> None:
    error = fault("night", {**LIVE, "begins_before": begins_before})
    assert error.what == "the window 'night' is not valid: begins_before"
    assert error.expected == "hours or minutes, such as 3h or 90m"


@pytest.mark.parametrize("entry", [JOB, ENTRY])
def test_run_that_moves_nothing_while_the_job_runs_begins_at_the_opening(entry: dict[str, Any]) -> None:
    error = fault("night", {**entry, "begins_before": "3h"})
    assert error.what == "the window 'night' is not valid: begins_before"
    assert error.expected == "a job with while_it_runs: true"


def test_source_of_a_job_is_refused() -> None:
    assert fault("night", {**JOB, "source": "/save"}).what == "the window 'night' is not valid: source"


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("schedule", "61 * * * *", "61"),
        ("schedule", "at noon", "at noon"),
        ("schedule", 6, "6"),
        ("timezone", "Europe/Bärlin", "Europe/Bärlin"),
        ("timezone", "", ""),
        ("timezone", 1, "1"),
        ("timezone", "../../etc/passwd", "passwd"),
        ("closes", "7:30", "7:30"),
        ("closes", "24:00", "24:00"),
        ("closes", 1110, "1110"),
        ("source", "savepoints", "'savepoints' does not match"),
        ("target", "s3://state/rescaled", "s3://state/rescaled"),
        ("target", "s3://state/{time}", "s3://state/{time}"),
        ("target", "s3://state/{date!r}", "{date!r}"),
        ("target", "s3://state/{date.year}", "{date.year}"),
        ("target", "s3://state/{}", "{}"),
        ("schedule", "*/10 6 * * *", "s3://state/rescaled/{window}-{date}"),
        ("schedule", "0 6,18 * * *", "s3://state/rescaled/{window}-{date}"),
        ("schedule", "0 * * * *", "s3://state/rescaled/{window}-{date}"),
        ("target", "s3://state/{date}/{day}", "{day}"),
        ("target", "s3://state/{date", "{date"),
        ("target", "{date}", "'{date}' does not match"),
        ("target", 7, "7"),
        ("parallelism", 0, "0 is less than or equal to the minimum of 0"),
        ("parallelism", "six", "'six' does not match"),
        ("parallelism", None, "the form asks for no change"),
        ("same_shape", True, "the form asks for the same shape and for another shape"),
        ("operators", {"visits": 3}, "3 is not of type 'object'"),
        ("format", "native", "'native' is not one of ['keep', 'canonical', 'rocksdb']"),
        ("paralelism", 8, "paralelism"),
    ],
)
def test_invalid_field_is_named(field: str, value: Any, reason: str) -> None:
    error = fault("night", {**ENTRY, field: value})
    named = "target" if reason == ENTRY["target"] else field
    named = "its shape" if reason.startswith("the form asks") else named
    assert error.what == f"the window 'night' is not valid: {named}"
    assert reason in str(error.found)


@pytest.mark.parametrize("field", ["schedule", "timezone", "closes", "source", "target"])
def test_missing_field_is_named(field: str) -> None:
    error = fault("night", {name: value for name, value in ENTRY.items() if name != field})
    assert error.what == f"the window 'night' is not valid: {field}"


def test_all_faults_of_an_entry_are_reported_together() -> None:
    entry = {**ENTRY, "schedule": "at noon", "timezone": "Mars", "closes": 7, "target": 7, "parallelism": 0, "x": 1}
    del entry["source"]
    window, errors = read_entry("night", entry)
    assert window is None
    named = [error.what.rpartition(" ")[2] for error in errors]
    assert named == ["source", "schedule", "timezone", "closes", "target", "parallelism", "x"]


@pytest.mark.parametrize(
    ("schedule", "target"),
    [
        ("*/10 6 * * *", "/rescaled/{date}-{time}"),
        ("0 6 * * *", "/rescaled/{date:%Y%m%d}"),
        ("0 6 * * *", "/{window}/{date:%Y/%j}"),
        ("0 */6 * * *", "/rescaled/{date:%Y%m%d}-{time:%H}"),
        ("0 6 29 2 *", "/rescaled/{date}"),
        ("@monthly", "/rescaled/{date:%Y-%m}"),
        ("@quarterly", "/rescaled/{date:%Y-%m}"),
    ],
)
def test_target_that_differs_for_each_run_of_the_schedule_is_accepted(schedule: str, target: str) -> None:
    assert make_window("night", {**ENTRY, "schedule": schedule, "target": target}).form_values["target"] == target


def test_date_and_time_of_a_target_have_the_given_format() -> None:
    opened = datetime(2026, 3, 29, 3, 5)
    assert target_of("/{date:%Y%m%d}/{time:%H-%M}", "night", opened) == "/20260329/03-05"


@pytest.mark.parametrize("name", ["a b", "", 5, "ü", ".a"])
def test_name_that_no_dag_can_have_is_refused(name: Any) -> None:
    assert "its name" in fault(name, ENTRY).what


def test_names_of_all_dags_of_rescale_are_reserved() -> None:
    dag_names = {path.stem.removeprefix("rescale_") for path in dag_folder().glob("rescale_*.py")}
    assert {name for name in dag_names if not name.startswith("windows")} == set(RESERVED_NAMES)


@pytest.mark.parametrize("name", [*RESERVED_NAMES, "Savepoint", "JOB"])
def test_reserved_name_is_refused(name: str) -> None:
    error = fault(name, ENTRY)
    assert error.what == f"the window {name!r} is not valid: its name"
    assert "which other DAGs have" in str(error.expected)


def test_entry_without_fields_is_refused() -> None:
    assert "the entry" in fault("night", "0 6 * * *").what
