"""Where the results of a window go: one pattern, and a directory of its own for every run.

A run whose target an earlier one has used fails at once, so what the schedule would make of a pattern is tried while
the entry is read: the openings of a while must all have other targets, and so must the same day of another year.
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
"""So many openings in a row are looked at; a day's, where a window opens every four minutes."""

_SAMPLE = datetime(2027, 1, 4, 0, 0)

Fault = tuple[str, object] | None
"""What was expected and what was found; None where nothing is wrong."""

_EXPECTED = (
    "a place that tells runs apart, such as 's3://bucket/rescaled/{window}-{date}'; with {time} if the window opens "
    "more than once a day"
)


_SHOWS_HOURS = re.compile(r"%[-_0^#]?[HIklRTXcrs]")


@dataclass(frozen=True)
class _Instant:
    """A point in time in a target: in its `usual` format, or in the one after the colon (`{date:%Y%m%d}`).

    Of an hour that clocks show twice, in autumn, the second one says so: else its run had the target of the first one.
    """

    instant: datetime
    usual: str

    def __format__(self, spec: str) -> str:
        form = spec or self.usual
        again = self.instant.fold and _SHOWS_HOURS.search(form) is not None
        return self.instant.strftime(form) + ("-second" if again else "")


def target_of(pattern: str, window: str, opened: datetime) -> str:
    """The target of the run for which the window opened at this local time."""
    return pattern.format(window=window, date=_Instant(opened, "%Y-%m-%d"), time=_Instant(opened, "%H%M"))


def pattern_fault(pattern: Any) -> Fault:
    """What is wrong with a pattern, whatever the schedule."""
    try:
        fields = [(name, conversion) for _, name, _, conversion in Formatter().parse(pattern) if name is not None]
        target_of(pattern, "window", _SAMPLE)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return _EXPECTED, pattern
    if any(name not in _PLACEHOLDERS or conversion for name, conversion in fields):
        return _EXPECTED, pattern
    return None


def targets_fault(window: str, pattern: str, schedule: str) -> Fault:
    """What is wrong with a pattern for this schedule: two openings that would have the same target."""
    seen: dict[str, datetime] = {}
    for opened in _openings(schedule):
        target = target_of(pattern, window, opened)
        if seen.get(target, opened) != opened:
            return _EXPECTED, f"{target} at {seen[target]:%Y-%m-%d %H:%M} and at {opened:%Y-%m-%d %H:%M}"
        seen[target] = opened
    return None


def _openings(schedule: str) -> Iterator[datetime]:
    """Some in a row, by the clock on the wall, and the first of them four years later; none if it never opens."""
    first = None
    expression = CronTriggerTimetable(schedule, timezone="UTC").expression  # of names such as @quarterly
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
