"""A window: when to rescale, and the values that its run has in the form.

What a person fills in once, a window says for every run. It names a running job, or as `source` the directory below
which savepoints lie; `target` tells by placeholders where the result of a run goes, so that no two runs have the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import time
from typing import Any
from zoneinfo import ZoneInfo

from airflow.sdk import CronTriggerTimetable, Param
from airflow.sdk.exceptions import ParamValidationError

from rescale.errors import RequestError
from rescale.orchestration.filled_form import refuse_silent_copy, refuse_unasked_drops, stripped
from rescale.orchestration.flink.stopping import refuse_no_way_back
from rescale.orchestration.form import Form, rescale_form
from rescale.orchestration.job_form import hand_over_of, job_form, taking_of
from rescale.orchestration.settings import settings, with_defaults
from rescale.orchestration.windows.targets import Fault, pattern_fault, targets_fault

RESERVED = ("savepoint", "job", "plan", "discard")
"""Names that would make the DAG of a window one that there is already."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
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
        form = with_defaults(_form_of(self.values), settings().form)
        for name, value in self.values.items():
            form[name].value = value
        if not self.of_a_job:
            form["source"].schema["description_md"] = "The directory below which savepoints lie: the newest is taken."
        form["target"].schema["description_md"] = (
            "Where the result goes; `{window}`, `{date}` and `{time}` stand for the name of the window and for when it "
            "opened, in a format of your own with `{date:%Y%m%d}`."
        )
        return form


def read_entry(name: Any, entry: Any) -> tuple[Window | None, list[RequestError]]:
    """The window of an entry of the file; or none, and for each field that is wrong a sentence that says why."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return None, [_wrong(name, "its name", "letters, digits, '_', '.' and '-'", name)]
    if name.casefold() in RESERVED:
        return None, [_wrong(name, "its name", f"another one than {', '.join(RESERVED)}, which are DAGs already", name)]
    if not isinstance(entry, dict):
        return None, [_wrong(name, "the entry", "fields and their values", entry)]
    if wrong := list(_faults(name, entry)):
        return None, wrong
    values = {field: value for field, value in entry.items() if field not in _OWN}
    closes = time.fromisoformat(entry["closes"])
    return Window(name, entry["schedule"], entry["timezone"], closes, values), []


def _faults(name: str, entry: Mapping[str, Any]) -> Iterator[RequestError]:
    form = _form_of(entry)
    known = (*_OWN, *form)
    required = ("flink", "job", "savepoints") if "job" in entry else ("source",)
    wrong: dict[Any, RequestError] = {}
    for field in (*_OWN, *required, "target"):
        if field not in entry:
            wrong[field] = _wrong(name, field, "a value", "none")
    for field, value in entry.items():
        if field not in known:
            wrong[field] = _wrong(name, field, f"a field that there is: {', '.join(known)}", field)
        elif field in _CHECKS and (fault := _CHECKS[field](value)) is not None:
            wrong[field] = _wrong(name, field, *fault)
        elif field in form and (sentence := _form_fault(form[field], value)) is not None:
            wrong[field] = _wrong(name, field, None, sentence)
    if not wrong and (error := _refused(_check_shape, entry)) is not None:
        wrong["shape"] = _wrong(name, "its shape", "a shape, or same_shape for a copy", error.what)
    if not wrong and "job" in entry and (error := _refused(_check_hand_over, entry)) is not None:
        wrong["hand-over"] = _wrong(name, "its hand-over", error.expected, error.what)
    yield from wrong.values()
    if not wrong and (fault := targets_fault(name, entry["target"], entry["schedule"])):
        yield _wrong(name, "target", *fault)


def _form_fault(param: Param, value: Any) -> str | None:
    """What the form says to a value that it does not take."""
    try:
        param.resolve(value)
    except ParamValidationError as error:
        return str(error).splitlines()[0]
    return None


def _refused(check: Callable[[Mapping[str, Any]], None], entry: Mapping[str, Any]) -> RequestError | None:
    """What the first task would say to the form that an entry fills in."""
    defaults = with_defaults(_form_of(entry), settings().form)
    try:
        check(stripped({**{field: param.value for field, param in defaults.items()}, **entry}))
    except RequestError as error:
        return error
    return None


def _check_shape(filled: Mapping[str, Any]) -> None:
    """Refuses one that asks for nothing, for two things at once, or for a silent loss."""
    refuse_silent_copy(filled)
    refuse_unasked_drops(filled)


def _check_hand_over(filled: Mapping[str, Any]) -> None:
    """Refuses one that would stop a job and start none, or two."""
    hand_over = hand_over_of(filled)
    refuse_no_way_back(taking_of(filled, hand_over), hand_over)


def _form_of(entry: Mapping[str, Any]) -> Form:
    return job_form() if "job" in entry else rescale_form()


def _zone_fault(value: Any) -> Fault:
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError, TypeError, AttributeError):  # for what is no name of a zone at all
        return "a time zone such as 'Europe/Berlin' or 'UTC'", value
    return None


def _schedule_fault(value: Any) -> Fault:
    expected = "a cron expression in quotes, such as '0 6 * * MON-FRI'"
    if not isinstance(value, str):
        return expected, value
    try:
        CronTriggerTimetable(value, timezone="UTC").validate()
    except Exception as error:  # croniter's own kinds, and Airflow's
        return expected, f"{value!r}: {error}"
    return None


def _closes_fault(value: Any) -> Fault:
    # Without quotes, YAML makes a number of 18:30.
    if not isinstance(value, str) or not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", value):
        return "a time of the day in quotes, such as '08:30'", value
    return None


_CHECKS: dict[str, Callable[[Any], Fault]] = {
    "schedule": _schedule_fault,
    "timezone": _zone_fault,
    "closes": _closes_fault,
    "target": pattern_fault,
}


def _wrong(window: object, field: object, expected: str | None, found: object) -> RequestError:
    return RequestError(f"the window {window!r} makes no sense: {field}", expected=expected, found=found)
