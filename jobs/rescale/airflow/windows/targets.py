"""Targets of a window: a pattern that gives every run a directory of its own.

A run fails at once if an earlier one has used its target. So the pattern is checked when the entry is read: a series of
openings, and the same day of another year, must all have different targets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from string import Formatter
from typing import Any

from airflow.sdk import CronTriggerTimetable
from croniter import CroniterBadDateError, croniter

_PLACEHOLDERS = ("window", "date", "time")
_OPENINGS = 400
"""Number of consecutive openings that are checked: those of a day, if a window opens every four minutes."""

_SAMPLE = datetime(2027, 1, 4, 0, 0)

Fault = tuple[str, object] | None
"""Expected and actual value of a wrong field; None if the field is valid."""

_EXPECTED = (
    "a place with a different name for every run, such as 's3://bucket/rescaled/{window}-{date}'; with {time} if the "
    "window opens more than once a day"
)


_SHOWS_HOURS = re.compile(r"%[-_0^#]?[HIklRTXcrs]")


@dataclass(frozen=True)
class _Instant:
    """Date or time in a pattern, in its `usual` format or in the format after the colon (`{date:%Y%m%d}`).

    In autumn the clock repeats an hour. The second one gets a suffix, so that its run has a target of its own.
    """

    instant: datetime
    usual: str

    def __format__(self, spec: str) -> str:
        form = spec or self.usual
        again = self.instant.fold and _SHOWS_HOURS.search(form) is not None
        return self.instant.strftime(form) + ("-second" if again else "")


def target_of(pattern: str, window: str, opened: datetime) -> str:
    """Return the target of the run for which the window opened at this local time."""
    return pattern.format(window=window, date=_Instant(opened, "%Y-%m-%d"), time=_Instant(opened, "%H%M"))


def pattern_fault(pattern: Any) -> Fault:
    """Return the fault of a pattern that is wrong with every schedule, or None."""
    try:
        fields = [(name, conversion) for _, name, _, conversion in Formatter().parse(pattern) if name is not None]
        target_of(pattern, "window", _SAMPLE)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return _EXPECTED, pattern
    if any(name not in _PLACEHOLDERS or conversion for name, conversion in fields):
        return _EXPECTED, pattern
    return None


def targets_fault(window: str, pattern: str, schedule: str) -> Fault:
    """Return the fault of a pattern with this schedule, or None: two openings would have the same target."""
    seen: dict[str, datetime] = {}
    for opened in _openings(schedule):
        target = target_of(pattern, window, opened)
        if seen.get(target, opened) != opened:
            return _EXPECTED, f"{target} at {seen[target]:%Y-%m-%d %H:%M} and at {opened:%Y-%m-%d %H:%M}"
        seen[target] = opened
    return None


def _openings(schedule: str) -> Iterator[datetime]:
    """Yield a series of openings in local time, and the first one four years later; none if the window never opens."""
    first = None
    expression = CronTriggerTimetable(schedule, timezone="UTC").expression  # resolves names such as @quarterly
    openings = croniter(expression, _SAMPLE, ret_type=datetime)
    for _ in range(_OPENINGS):
        try:
            opened = openings.get_next()
        except CroniterBadDateError:
            return
        first = first or opened
        yield opened
    if first is not None:
        yield first.replace(year=first.year + 4)
