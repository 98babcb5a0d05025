"""Numbers as people read them."""

from __future__ import annotations

import pytest

from rescale.text.units import counted, duration, human_bytes


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (1234, "1.23 kB"),
        (999_000, "999 kB"),
        (10**9, "1 GB"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (5_678 * 10**12, "5.68 PB"),
    ],
)
def test_bytes_are_shown_in_readable_units(size: int, text: str) -> None:
    assert human_bytes(size) == text


def test_counted_nouns_are_singular_or_plural() -> None:
    assert [counted(n, "file") for n in (0, 1, 2, 1234)] == ["0 files", "1 file", "2 files", "1,234 files"]
    assert [counted(n, "copy", "copies") for n in (1, 2)] == ["1 copy", "2 copies"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1 second"),
        (41.7, "42 seconds"),
        (90, "2 minutes"),
        (5400, "1 hour and 30 minutes"),
        (99.4 * 3600, "4 days and 3 hours"),
        (1e14, "1,000 years and more"),
    ],
)
def test_durations_are_shown_in_readable_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text
