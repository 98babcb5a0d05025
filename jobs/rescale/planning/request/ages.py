"""Parses the ages of rows to leave out, which a request gives as `UID:STATE=AGE`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

from rescale.text.errors import RequestError

Age = timedelta | datetime
"""An age, or the time of last access itself, with its time zone."""

_AGE_PATTERN = re.compile(r"([0-9]{1,12}) ?(ms|s|min|h|d)")
_TIMEDELTA_ARGUMENTS = {"ms": "milliseconds", "s": "seconds", "min": "minutes", "h": "hours", "d": "days"}
_EXPECTED = "UID:STATE=AGE, with an age such as 30d, 12h, 90min, 45s or 500ms, or a time such as 2026-10-01T00:00:00Z"


def parse_ages(option_values: Iterable[str]) -> dict[str, Age]:
    """Return the ages by `UID:STATE`. Raises `RequestError` if a value is malformed, or a state is given twice.

    A uid and the name of a state may contain colons and equals signs, so the age follows the last equals sign.
    """
    ages: dict[str, Age] = {}
    for value in option_values:
        state, _, age = value.rpartition("=")
        if not state.strip(":") or ":" not in state[1:]:
            raise RequestError(f"not a state of an operator and an age: {value!r}", expected=_EXPECTED, found=value)
        if state in ages:
            raise RequestError(f"the age of old rows of the state {state!r} is given twice", found=value)
        ages[state] = _parse_age(age.strip(), value)
    return ages


def _parse_age(text: str, option_value: str) -> Age:
    if match := _AGE_PATTERN.fullmatch(text):
        try:
            age = timedelta(**{_TIMEDELTA_ARGUMENTS[match[2]]: int(match[1])})
        except OverflowError:
            raise RequestError("an age is too large", expected=_EXPECTED, found=option_value) from None
        if not age:
            raise RequestError("an age of 0 would leave out all rows", expected=_EXPECTED, found=option_value)
        return age
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        problem = "not an age" if instant is None else "a time without its time zone"
        raise RequestError(f"{problem}: {text!r}", expected=_EXPECTED, found=option_value)
    return instant


def age_text(age: Age) -> str:
    """Return an age as text: `30 days`, or `2026-10-01T00:00:00+00:00`."""
    from rescale.text.units import duration

    return duration(age.total_seconds()) if isinstance(age, timedelta) else age.isoformat()
