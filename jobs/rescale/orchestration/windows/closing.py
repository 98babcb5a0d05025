"""When a window is open: from the time of the run on, until the clock on the wall next shows its closing time.

All comparisons are of instants. The wall clock skips an hour in spring and shows one twice in autumn, so a window over
such a night is shorter or longer; where the closing time is shown twice, the first one after the opening counts.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo


def closing(opened: datetime, closes: time, zone: ZoneInfo) -> datetime:
    """The first instant after `opened` at which clocks of the zone show `closes`, in its time."""
    day = opened.astimezone(zone).date()
    return min(
        instant for days in (0, 1) for instant in _shown(closes, day + timedelta(days=days), zone) if instant > opened
    ).astimezone(zone)


def _shown(clock: time, day: date, zone: ZoneInfo) -> list[datetime]:
    """The instants of a day at which clocks show a time; for one that they skip, as if they had not been put yet."""
    first, second = (datetime.combine(day, clock, zone).replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    return [first, second] if second > first else [first]
