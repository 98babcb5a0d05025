"""The clocks of hosts, as far as anything asks for the time: they differ, and are set while somebody looks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from random import Random

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_LONGEST = timedelta(days=36_500)
_JUMPS = (0, 0, 1, 60, -3600, -86_400, 400 * 86_400, -400 * 86_400)
"""Seconds between one look at a clock and the next one, of another host perhaps."""


class Clock:
    """In the place of `datetime`, where something asks for the time: nothing may be made of it but a word."""

    def __init__(self, random: Random | None = None) -> None:
        """Without `random` it stands still."""
        self._random = random
        self._at = _BEGIN

    def now(self, zone: tzinfo | None = None) -> datetime:
        if self._random is not None:
            self._at += timedelta(seconds=self._random.choice(_JUMPS))
            if abs(self._at - _BEGIN) > _LONGEST:
                self._at = _BEGIN
        return self._at.astimezone(zone)
