"""Hours of a window: it opens by its schedule, and closes when the local clock next shows its closing time.

A run may begin before its window opens.

All comparisons are between instants. The local clock skips an hour in spring and repeats one in autumn, so a window
over such a night is shorter or longer. If the closing time occurs twice, the first one after the opening counts. If the
clock skips the opening, Airflow begins the run later by the skipped hour, and the window still closes at its closing
time: it may have closed by then.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from croniter import CroniterBadDateError, croniter


class WindowHours(NamedTuple):
    """Opening and closing times of a window; times of day are in `zone`.

    `schedule` is a cron expression for the openings. Runs begin before their window opens, by `begins_before`.
    """

    schedule: str
    closes: time
    begins_before: timedelta
    zone: ZoneInfo

    def opening_time(self, run_start: datetime, *, is_scheduled: bool) -> datetime | None:
        """Return when the window opens, or opened, for a run that began at `run_start`; None if it has never opened.

        A run that was triggered by hand (not `is_scheduled`) belongs to the window whose scheduled run was due last
        before it. The result may have a local time that the clock skips.
        """
        instant = (run_start.astimezone(UTC) + self.begins_before).astimezone(self.zone)
        opening = last_opening(self.schedule, instant, self.zone)
        is_other_opening = is_scheduled and (opening is None or opening.timestamp() != instant.timestamp())
        return instant if is_other_opening else opening

    def closing_time(self, opening: datetime) -> datetime:
        """Return when a window closes after its `opening`, in the zone's time."""
        return closing_time(opening, self.closes, self.zone)


def last_opening(expression: str, instant: datetime, zone: ZoneInfo) -> datetime | None:
    """Return the last time at or before an instant at which a cron expression opens a window; None if never."""
    local_time = instant.astimezone(zone).replace(tzinfo=None)
    try:
        return (
            croniter(expression, local_time + timedelta(seconds=1), ret_type=datetime).get_prev().replace(tzinfo=zone)
        )
    except CroniterBadDateError:
        return None


def closing_time(opening: datetime, closes: time, zone: ZoneInfo) -> datetime:
    """Return the first instant after `opening` at which clocks of the zone show `closes`, in the zone's time.

    If `opening` is a local time of the zone that the clock skips, the result may be at or before it.
    """
    local_opening = opening.astimezone(zone)  # if it is in this zone already, a skipped time stays as it is
    day = local_opening.date()
    if local_opening.replace(tzinfo=None) != local_opening.astimezone(UTC).astimezone(zone).replace(tzinfo=None):
        closing_day = day + timedelta(days=closes <= local_opening.time())
        return _instants_of_day(closes, closing_day, zone)[0].astimezone(zone)
    instants = (instant for days in (0, 1) for instant in _instants_of_day(closes, day + timedelta(days=days), zone))
    return min(instant for instant in instants if instant > opening).astimezone(zone)


def _instants_of_day(time_of_day: time, day: date, zone: ZoneInfo) -> list[datetime]:
    """Return the instants of a day at which the local clock shows a time: two in order if the clock is set back.

    For a time that the clock skips, return the instant by the UTC offset before the change.
    """
    first, second = (datetime.combine(day, time_of_day, zone).replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    return [first, second] if second > first else [first]
