"""A window: a schedule for rescales, and the values of the form for its runs.

A window names a running job, or as `source` a directory with savepoints. Its `target` is a pattern with placeholders,
so that every run has a target of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import time, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from rescale.airflow.flink.stopping import refuse_stop_without_restart
from rescale.airflow.forms.dag_arguments import with_defaults
from rescale.airflow.forms.filled_form import check_changes, trimmed_values
from rescale.airflow.forms.form import Form, field_fault, flag_field, rescale_form
from rescale.airflow.forms.job_form import hand_over_of, job_form, stop_mode_of
from rescale.airflow.forms.live_form import live_request_of
from rescale.airflow.settings import settings
from rescale.airflow.windows.closing import WindowHours
from rescale.airflow.windows.cron import CronTriggerTimetable, expression_of
from rescale.airflow.windows.targets import Fault, pattern_fault, placeholder_fault
from rescale.flink_rest.client import StopMode
from rescale.text.errors import RequestError

if TYPE_CHECKING:
    from rescale.airflow.windows.early_timetable import EarlyTimetable

RESERVED_NAMES = ("savepoint", "job", "plan", "discard")
"""Names of windows whose DAG would have the id of an existing DAG."""

_LEAD_TIME = re.compile(r"([1-9][0-9]{0,3})([hm])")
_UNIT_BY_LETTER = {"h": "hours", "m": "minutes"}
_MOST_NAME_CHARACTERS = 250 - len("rescale_")
"""Largest length of a window's name with which its DAG has a valid id (`validate_key`)."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_WINDOW_FIELDS = ("schedule", "timezone", "closes", "begins_before")

OUTSIDE_HOURS = "outside_hours"
"""Field in the form of a window for runs that are triggered by hand outside its hours."""


@dataclass(frozen=True)
class Window:
    """A window; `form_values` are the values of form fields.

    No run starts after the time of day `closes`, in `timezone`. If the job is rescaled while it runs, a run begins
    earlier than the window opens, by `begins_before`; the job is cut over while the window is open.
    """

    name: str
    schedule: str
    timezone: str
    closes: time
    form_values: Mapping[str, Any]
    begins_before: timedelta = timedelta()

    @property
    def dag_id(self) -> str:
        return f"rescale_{self.name}"

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    @property
    def timetable(self) -> CronTriggerTimetable | EarlyTimetable:
        """Airflow's schedule of the runs."""
        if self.begins_before:
            from rescale.airflow.windows.early_timetable import EarlyTimetable

            return EarlyTimetable(self.schedule, self.timezone, self.begins_before)
        return CronTriggerTimetable(self.schedule, timezone=self.timezone)

    @property
    def hours(self) -> WindowHours:
        expression = expression_of(CronTriggerTimetable(self.schedule, timezone=self.timezone))
        return WindowHours(expression, self.closes, self.begins_before, self.zone)

    @property
    def has_job(self) -> bool:
        """Whether the window rescales a running job, rather than savepoints in a directory."""
        return "job" in self.form_values

    def form(self) -> Form:
        """Return the Params of the window's DAG: the form, with the values of this window as defaults."""
        form = with_defaults(_form_of(self.form_values), settings().form)
        for name, value in self.form_values.items():
            form[name].value = value
        if not self.has_job:
            form["source"].schema["description_md"] = "A directory with savepoints; the newest one is rescaled."
        form["target"].schema["description_md"] = (
            "The directory of the result. `{window}`, `{date}` and `{time}` stand for the name of the window and the "
            "time at which it opened; `{date:%Y%m%d}` sets a format."
        )
        form[OUTSIDE_HOURS] = flag_field(
            title="Outside its hours",
            description_md=f"Run now, although the window is open only from `{self.schedule}` until "
            f"{self.closes:%H:%M} ({self.timezone}).",
            section="Window",
        )
        return form


def read_entry(name: Any, entry: Any) -> tuple[Window | None, list[RequestError]]:
    """Return the window of an entry in the file; or None, and an error for each wrong field."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _MOST_NAME_CHARACTERS:
        expected_name = f"letters, digits, '_', '.' and '-', at most {_MOST_NAME_CHARACTERS} of them"
        return None, [_window_error(name, "its name", expected_name, name)]
    if name.casefold() in RESERVED_NAMES:
        return None, [
            _window_error(
                name, "its name", f"a name other than {', '.join(RESERVED_NAMES)}, which other DAGs have", name
            )
        ]
    if not isinstance(entry, dict):
        return None, [_window_error(name, "the entry", "fields and their values", entry)]
    if errors := list(_entry_errors(name, entry)):
        return None, errors
    form_values = {field: value for field, value in entry.items() if field not in _WINDOW_FIELDS}
    closes, lead_time = time.fromisoformat(entry["closes"]), _lead_time_of(entry.get("begins_before")) or timedelta()
    return Window(name, entry["schedule"], entry["timezone"], closes, form_values, lead_time), []


def _entry_errors(name: str, entry: Mapping[str, Any]) -> Iterator[RequestError]:
    """Yield an error for each wrong field of an entry; for wrong combinations only if all fields are right."""
    form = _form_of(entry)
    known_fields = (*_WINDOW_FIELDS, *form)
    directory_fields = () if entry.get("taking") == StopMode.CHECKPOINT else ("savepoints",)
    required_fields = ("flink", "job", *directory_fields) if "job" in entry else ("source",)
    errors: dict[Any, RequestError] = {}
    for field in ("schedule", "timezone", "closes", *required_fields, "target"):
        if field not in entry:
            errors[field] = _window_error(name, field, "a value", "none")
    for field, value in entry.items():
        if field not in known_fields:
            errors[field] = _window_error(name, field, f"one of the fields {', '.join(known_fields)}", field)
        elif field in _FIELD_CHECKS and (fault := _FIELD_CHECKS[field](value)) is not None:
            errors[field] = _window_error(name, field, *fault)
        elif field in form and (sentence := field_fault(form[field], value)) is not None:
            errors[field] = _window_error(name, field, None, sentence)
    if not errors and (error := _form_error(check_changes, entry)) is not None:
        errors["shape"] = _window_error(name, "its shape", "a shape, or same_shape for an unchanged copy", error.what)
    if not errors and "begins_before" in entry and not entry.get("while_it_runs"):
        errors["begins_before"] = _window_error(name, "begins_before", "a job with while_it_runs: true", "no such job")
    if not errors and "job" in entry and (error := _form_error(_check_hand_over, entry)) is not None:
        errors["hand-over"] = _window_error(name, "its hand-over", error.expected, error.what)
    yield from errors.values()
    if not errors and (fault := placeholder_fault(entry["target"], entry["schedule"])):
        yield _window_error(name, "target", *fault)


def _form_error(check: Callable[[Mapping[str, Any]], None], entry: Mapping[str, Any]) -> RequestError | None:
    """Return the error that `check` raises for an entry and the form's defaults; None if it raises none."""
    defaults = with_defaults(_form_of(entry), settings().form)
    try:
        check(trimmed_values({**{field: param.value for field, param in defaults.items()}, **entry}))
    except RequestError as error:
        return error
    return None


def _check_hand_over(filled_values: Mapping[str, Any]) -> None:
    """Raise `RequestError` if the run could not start a stopped job again, or would let the old and the new job run."""
    hand_over = hand_over_of(filled_values)
    live_request_of(filled_values)
    refuse_stop_without_restart(stop_mode_of(filled_values, hand_over), hand_over)


def _form_of(entry: Mapping[str, Any]) -> Form:
    return job_form() if "job" in entry else rescale_form()


def _zone_fault(value: Any) -> Fault:
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError, TypeError, AttributeError):  # `ZoneInfo` raises all of these
        return "a time zone such as 'Europe/Berlin' or 'UTC'", value
    return None


def _schedule_fault(value: Any) -> Fault:
    expected_schedule = "a cron expression in quotes, such as '0 6 * * MON-FRI'"
    if not isinstance(value, str):
        return expected_schedule, value
    try:
        CronTriggerTimetable(value, timezone="UTC").validate()
    except Exception as error:  # croniter and Airflow define error classes of their own
        return expected_schedule, f"{value!r}: {error}"
    return None


def _time_fault(value: Any) -> Fault:
    # Without quotes, YAML reads 18:30 as a number.
    if not isinstance(value, str) or not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", value):
        return "a time of the day in quotes, such as '08:30'", value
    return None


def _lead_time_of(value: Any) -> timedelta | None:
    """Parse a duration such as `3h` or `90m`; return None for any other value."""
    match = _LEAD_TIME.fullmatch(value) if isinstance(value, str) else None
    return None if match is None else timedelta(**{_UNIT_BY_LETTER[match[2]]: int(match[1])})


def _lead_time_fault(value: Any) -> Fault:
    return ("hours or minutes, such as 3h or 90m", value) if _lead_time_of(value) is None else None


_FIELD_CHECKS: dict[str, Callable[[Any], Fault]] = {
    "schedule": _schedule_fault,
    "timezone": _zone_fault,
    "closes": _time_fault,
    "begins_before": _lead_time_fault,
    "target": pattern_fault,
}


def _window_error(window: object, field: object, expected: str | None, actual: object) -> RequestError:
    return RequestError(f"the window {window!r} is not valid: {field}", expected=expected, found=actual)
