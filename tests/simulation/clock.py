"""Clocks of hosts, which differ, and jump while they are in use."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from random import Random

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_MOST_DRIFT = timedelta(days=36_500)
_JUMP_SECONDS = (0, 0, 1, 60, -3600, -86_400, 400 * 86_400, -400 * 86_400)
"""Seconds by which the clock moves between two reads of the time, which may be reads of different hosts."""


class Clock:
    """Stand-in for `datetime`. Runs may report its times; nothing else may depend on them."""

    def __init__(self, random: Random | None = None) -> None:
        """Create a clock; without `random` it stands still."""
        self._random = random
        self._time = _BEGIN

    def now(self, zone: tzinfo | None = None) -> datetime:
        if self._random is not None:
            self._time += timedelta(seconds=self._random.choice(_JUMP_SECONDS))
            if abs(self._time - _BEGIN) > _MOST_DRIFT:
                self._time = _BEGIN
        return self._time.astimezone(zone)
