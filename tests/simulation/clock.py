"""Clocks of hosts, which differ, and jump while they are in use."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from random import Random

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_LONGEST = timedelta(days=36_500)
_JUMPS = (0, 0, 1, 60, -3600, -86_400, 400 * 86_400, -400 * 86_400)
"""Seconds by which the clock moves between two reads of the time, which may be reads of different hosts."""


class Clock:
    """Stand-in for `datetime`. Runs may report its times; nothing else may depend on them."""

    def __init__(self, random: Random | None = None) -> None:
        """Create a clock; without `random` it stands still."""
        self._random = random
        self._at = _BEGIN

    def now(self, zone: tzinfo | None = None) -> datetime:
        if self._random is not None:
            self._at += timedelta(seconds=self._random.choice(_JUMPS))
            if abs(self._at - _BEGIN) > _LONGEST:
                self._at = _BEGIN
        return self._at.astimezone(zone)
