"""What a step says of itself on the way."""

from __future__ import annotations

import pytest

from rescale.execution.progress import Progress

Captured = pytest.CaptureFixture[str]


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("rescale.execution.progress.time", clock)
    return clock


def test_time_left_is_estimated_once_there_is_something_to_estimate_from(clock: Clock, capsys: Captured) -> None:
    """Ten seconds in which nothing is read, because workers start, say nothing of how fast they read."""
    progress = Progress("validate", 1_000_000)
    told = []
    for second, done in ((1, 0), (6, 0), (9, 0), (10, 1000), (11, 1000), (12, 41_000), (16, 61_000), (22, 121_000)):
        clock.now = second
        progress.at(done)
        told.append(capsys.readouterr().err)
    assert told == [
        "",
        "validate: begun, 1 MB to go\n",
        "",
        "",
        "validate: 1 kB of 1 MB\n",
        "",
        "validate: 61 kB of 1 MB\n",
        "validate: 121 kB of 1 MB, about 88 s left\n",
    ]
    clock.now = 50
    progress.finish(1_000_000)
    assert capsys.readouterr().err == "validate: 1 MB in 50.0 s\n"


def test_what_is_done_at_once_has_no_estimate(clock: Clock, capsys: Captured) -> None:
    progress = Progress("validate", 100)
    for second in (6, 12, 18):
        clock.now = second
        progress.at(50)
    assert capsys.readouterr().err == "validate: 50 bytes of 100 bytes\n"


def test_much_is_estimated_from_half_a_minute(clock: Clock, capsys: Captured) -> None:
    progress = Progress("validate", 10_000_000)
    for second in range(10, 46, 5):
        clock.now = second
        progress.at((second - 9) * 1000)
    told = capsys.readouterr().err.splitlines()
    assert [line for line in told if "left" in line] == told[-2:]
    assert told[-1] == "validate: 36 kB of 10 MB, about 9964 s left"
