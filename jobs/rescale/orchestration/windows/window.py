"""A window: when to rescale, and the values that its run has in the form.

What a person fills in once, a window says for every run. It names a running job, or as `source` the directory below
which savepoints lie; `target` tells by placeholders where the result of a run goes, so that no two runs have the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, time
from string import Formatter
from typing import Any
from zoneinfo import ZoneInfo

from airflow.sdk import CronTriggerTimetable
from airflow.sdk.exceptions import ParamValidationError

from rescale.errors import RequestError
from rescale.orchestration.form import Form, rescale_form
from rescale.orchestration.job.form import job_form

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PLACEHOLDERS = ("window", "date", "time")
_OWN = ("schedule", "timezone", "closes")


@dataclass(frozen=True)
class Window:
    """`closes` is the time of the day, in `timezone`, after which no run begins; `values` are those of form fields."""

    name: str
    schedule: str
    timezone: str
    closes: time
    values: Mapping[str, Any]

    @property
    def dag_id(self) -> str:
        return f"rescale_{self.name}"

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    @property
    def timetable(self) -> CronTriggerTimetable:
        return CronTriggerTimetable(self.schedule, timezone=self.timezone)

    @property
    def of_a_job(self) -> bool:
        """Whether the savepoint is taken of a running job, and the job handed over."""
        return "job" in self.values

    def form(self) -> Form:
        """The form with this window's values in it, for whoever triggers a run by hand."""
        form = _form_of(self.values)
        for name, value in self.values.items():
            form[name].value = value
        if not self.of_a_job:
            form["source"].schema["description_md"] = "The directory below which savepoints lie: the newest is taken."
        form["target"].schema["description_md"] = (
            "Where the result goes; `{window}`, `{date}` and `{time}` stand for the name of the window and for when it "
            "opened."
        )
        return form


def target_of(pattern: str, window: str, opened: datetime) -> str:
    """The target of the run for which the window opened at this local time."""
    return pattern.format(window=window, date=f"{opened:%Y-%m-%d}", time=f"{opened:%H%M}")


def make_window(name: Any, entry: Any) -> Window:
    """The window of an entry of the file; `RequestError` names the field that is wrong, and says why."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _wrong(name, "its name", "letters, digits, '_', '.' and '-'", name)
    if not isinstance(entry, dict):
        raise _wrong(name, "the entry", "fields and their values", entry)
    form = _form_of(entry)
    known = (*_OWN, *form)
    for field in entry:
        if field not in known:
            raise _wrong(name, field, f"a field that there is: {', '.join(known)}", field)
    required = ("flink", "job", "savepoints") if "job" in entry else ("source",)
    for field in (*_OWN, *required, "target"):
        if field not in entry:
            raise _wrong(name, field, "a value", "none")
    for field, check in _CHECKS.items():
        check(name, entry[field])
    for field, param in form.items():
        if field in entry:
            try:
                param.resolve(entry[field])
            except ParamValidationError as error:
                raise _wrong(name, field, None, str(error).splitlines()[0]) from None
    values = {field: value for field, value in entry.items() if field not in _OWN}
    closes = time.fromisoformat(entry["closes"])
    return Window(name, entry["schedule"], entry["timezone"], closes, values)


def _form_of(entry: Mapping[str, Any]) -> Form:
    return job_form() if "job" in entry else rescale_form()


def _check_zone(window: str, value: Any) -> None:
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError, TypeError, AttributeError):  # for what is no name of a zone at all
        raise _wrong(window, "timezone", "a time zone such as 'Europe/Berlin' or 'UTC'", value) from None


def _check_schedule(window: str, value: Any) -> None:
    expected = "a cron expression in quotes, such as '0 6 * * MON-FRI'"
    if not isinstance(value, str):
        raise _wrong(window, "schedule", expected, value)
    try:
        CronTriggerTimetable(value, timezone="UTC").validate()
    except Exception as error:  # croniter's own kinds, and Airflow's
        raise _wrong(window, "schedule", expected, f"{value!r}: {error}") from None


def _check_closes(window: str, value: Any) -> None:
    # Without quotes, YAML makes a number of 18:30.
    if not isinstance(value, str) or not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", value):
        raise _wrong(window, "closes", "a time of the day in quotes, such as '08:30'", value)


def _check_target(window: str, value: Any) -> None:
    expected = "a place that tells runs apart, such as 's3://bucket/rescaled/{window}-{date}'; with {time} if the "
    expected += "window opens more than once a day"
    try:
        found = {name for _, name, spec, conversion in Formatter().parse(value) if name is not None}
    except (ValueError, TypeError):
        raise _wrong(window, "target", expected, value) from None
    if "date" not in found or not found.issubset(_PLACEHOLDERS):
        raise _wrong(window, "target", expected, value)


_CHECKS: dict[str, Callable[[str, Any], None]] = {
    "schedule": _check_schedule,
    "timezone": _check_zone,
    "closes": _check_closes,
    "target": _check_target,
}


def _wrong(window: object, field: object, expected: str | None, found: object) -> RequestError:
    return RequestError(f"the window {window!r} makes no sense: {field}", expected=expected, found=found)
