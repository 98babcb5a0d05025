"""Targets of a window: a pattern that gives every run a directory of its own.

The pattern holds the date at which the window opened, and the time if it opens more than once a day.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from string import Formatter
from typing import Any

from croniter import croniter

from rescale.airflow.windows.cron import CronTriggerTimetable, expression_of

_PLACEHOLDERS = {"window", "date", "time"}

Fault = tuple[str, object] | None
"""Expected and actual value of a wrong field; None if the field is valid."""

_EXPECTED_PATTERN = (
    "a place that holds {date}, such as 's3://bucket/rescaled/{window}-{date}', and {time} if the window opens more "
    "than once a day"
)


@dataclass(frozen=True)
class _Instant:
    """Date or time in a pattern, in its `default_format`, or in the format after the colon (`{date:%Y%m%d}`)."""

    instant: datetime
    default_format: str

    def __format__(self, spec: str) -> str:
        return self.instant.strftime(spec or self.default_format)


def target_of(pattern: str, window_name: str, opening: datetime) -> str:
    """Return the target of the run for which the window opened at this local time."""
    return pattern.format(window=window_name, date=_Instant(opening, "%Y-%m-%d"), time=_Instant(opening, "%H%M"))


def pattern_fault(pattern: Any) -> Fault:
    """Return the fault of a pattern, or None if it is text with known placeholders only."""
    try:
        names = _names_in(pattern)
        target_of(pattern, "window", datetime.min)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return _EXPECTED_PATTERN, pattern
    return (_EXPECTED_PATTERN, pattern) if names - _PLACEHOLDERS else None


def placeholder_fault(pattern: str, schedule: str) -> Fault:
    """Return the fault of a pattern that could give two runs of a schedule the same target, or None."""
    needed_placeholders = {"date", "time"} if _opens_more_than_once_a_day(schedule) else {"date"}
    return (_EXPECTED_PATTERN, pattern) if needed_placeholders - _names_in(pattern) else None


def _names_in(pattern: str) -> set[str]:
    """Return the names of the placeholders in a pattern, each with its conversion (`date!r`) if it has one."""
    placeholders = [(name, conversion) for _, name, _, conversion in Formatter().parse(pattern) if name is not None]
    return {f"{name}!{conversion}" if conversion else name for name, conversion in placeholders}


def _opens_more_than_once_a_day(schedule: str) -> bool:
    expression = expression_of(CronTriggerTimetable(schedule, timezone="UTC"))
    return any(times == ["*"] or len(times) > 1 for times in croniter.expand(expression)[0][:2])
