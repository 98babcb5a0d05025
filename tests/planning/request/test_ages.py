"""Ages of rows to leave out, as texts of a request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rescale.planning.request.ages import age_text, parse_ages
from rescale.planning.request.surgery_request import parse_surgery
from rescale.text.errors import RequestError


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("30d", timedelta(days=30)),
        ("12h", timedelta(hours=12)),
        ("90min", timedelta(minutes=90)),
        ("45 s", timedelta(seconds=45)),
        ("500ms", timedelta(milliseconds=500)),
        ("2026-10-01T00:00:00Z", datetime(2026, 10, 1, tzinfo=UTC)),
        ("2026-10-01T02:00:00.5+02:00", datetime(2026, 10, 1, 2, 0, 0, 500_000, timezone(timedelta(hours=2)))),
    ],
)
def test_age_follows_the_last_equals_sign(text: str, age: timedelta | datetime) -> None:
    assert parse_ages([f"a=b:c:d=e={text}"]) == {"a=b:c:d=e": age}


@pytest.mark.parametrize(
    ("ages", "message"),
    [
        (["visits:last"], "not a state of an operator and an age"),
        (["visits=30d"], "not a state of an operator and an age"),
        ([":=30d"], "not a state of an operator and an age"),
        (["visits:last=30"], "not an age: '30'"),
        (["visits:last=-1d"], "not an age"),
        (["visits:last=1.5d"], "not an age"),
        (["visits:last=0h"], "an age of 0 would leave out all rows"),
        (["visits:last=999999999999d"], "too large"),
        (["visits:last=2026-10-01T00:00:00"], "a time without its time zone"),
        (["visits:last=30d", "visits:last=12h"], "given twice"),
    ],
)
def test_wrong_ages_are_refused(ages: list[str], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_surgery(ages=ages)
    assert message in str(caught.value)
    assert caught.value.option == "--drop-older"


def test_request_with_an_age_is_one_for_surgery() -> None:
    assert parse_surgery(ages=["visits:last=30d"])
    assert age_text(timedelta(days=30)) == "30 days"
    assert age_text(datetime(2026, 10, 1, tzinfo=UTC)) == "2026-10-01T00:00:00+00:00"
