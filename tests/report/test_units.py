"""Numbers as people read them."""

from __future__ import annotations

import pytest

from rescale.report.units import counted, duration, human_bytes


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1 KB"),
        (1234, "1.23 KB"),
        (999_000, "999 KB"),
        (10**9, "1 GB"),
        (999_499, "999 KB"),
        (999_500, "1 MB"),
        (5_678 * 10**12, "5,678 TB"),
    ],
)
def test_bytes(size: int, text: str) -> None:
    assert human_bytes(size) == text


def test_nouns() -> None:
    assert [counted(n, "file") for n in (0, 1, 2, 1234)] == ["0 files", "1 file", "2 files", "1,234 files"]
    assert [counted(n, "copy", "copies") for n in (1, 2)] == ["1 copy", "2 copies"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1 s"),
        (89.4, "89 s"),
        (90, "1.5 min"),
        (5399, "90 min"),
        (5400, "1.5 h"),
        (99.4 * 3600, "99 h"),
        (1234 * 3600, "1,234 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
