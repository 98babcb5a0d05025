"""Progress messages of a step."""

from __future__ import annotations

import pytest

from rescale.execution.progress import ByteAction, Progress
from rescale.ticks import Tick, tick_of

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


def test_time_left_is_estimated_once_bytes_are_read(clock: Clock, capsys: Captured) -> None:
    """Ten seconds without reads, while workers start, do not count."""
    progress = Progress("validate", 1_000_000, ByteAction.READ)
    outputs = []
    for second, done in ((1, 0), (6, 0), (9, 0), (10, 1000), (11, 1000), (12, 41_000), (16, 61_000), (22, 121_000)):
        clock.now = second
        progress.update(done)
        outputs.append(capsys.readouterr().err)
    assert outputs == [
        "",
        "validate: begun, 1 MB to read\n",
        "",
        "",
        "validate: 1 kB of 1 MB read\n",
        "",
        "validate: 61 kB of 1 MB read\n",
        "validate: 121 kB of 1 MB read, about 1 minute and 28 seconds left\n",
    ]
    clock.now = 50
    progress.finish(1_000_000)
    assert capsys.readouterr().err == "validate: 1 MB read in 50.0 s\n"


def test_short_step_has_no_estimate(clock: Clock, capsys: Captured) -> None:
    progress = Progress("validate", 100, ByteAction.READ)
    for second in (6, 12, 18):
        clock.now = second
        progress.update(50)
    assert capsys.readouterr().err == "validate: 50 bytes of 100 bytes read\n"


def test_large_step_is_estimated_after_half_a_minute(clock: Clock, capsys: Captured) -> None:
    progress = Progress("validate", 10_000_000, ByteAction.READ)
    for second in range(10, 46, 5):
        clock.now = second
        progress.update((second - 9) * 10_000)
    output_lines = capsys.readouterr().err.splitlines()
    assert [line for line in output_lines if "left" in line] == output_lines[-2:]
    assert output_lines[-1] == "validate: 360 kB of 10 MB read, about 16 minutes left"


def test_step_that_has_hardly_begun_has_no_estimate(clock: Clock, capsys: Captured) -> None:
    """Compiling the loops may take any time."""
    progress = Progress("validate", 10_000_000, ByteAction.READ)
    for second in range(10, 300, 5):
        clock.now = second
        progress.update((second - 9) * 100)
    assert "left" not in capsys.readouterr().err


def test_finished_step_has_no_estimate(clock: Clock, capsys: Captured) -> None:
    progress = Progress("validate", 1_000_000, ByteAction.READ)
    for second, done in ((1, 1000), (60, 900_000), (70, 1_000_000)):
        clock.now = second
        progress.update(done)
    assert capsys.readouterr().err.endswith("left\nvalidate: 1 MB of 1 MB read\n")


def test_drawn_progress_ends_with_a_tick_marked_as_over(
    clock: Clock, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Progress, "is_drawn", True)
    progress = Progress("validate", 1_000_000, ByteAction.READ)
    for second, done in ((0.1, 0), (1, 0), (1.2, 50_000), (2, 100_000), (7, 600_000)):
        clock.now = second
        progress.update(done)
    clock.now = 11
    progress.finish(1_000_000)
    *lines, last = capsys.readouterr().err.rstrip().split("\n")
    assert last == "validate: 1 MB read in 11.0 s", "the last line is another one than without ticks"
    ticks = [tick_of(line) for line in lines]
    assert ticks == [
        Tick("validate", 0, 1_000_000),
        Tick("validate", 100_000, 1_000_000),
        Tick("validate", 600_000, 1_000_000, pytest.approx(550_000 / 5.8), pytest.approx(400_000 / (550_000 / 5.8))),
        Tick("validate", 1_000_000, 1_000_000, over=True),
    ]


def test_step_that_ends_at_once_has_no_ticks(clock: Clock, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Progress, "is_drawn", True)
    progress = Progress("validate", 100, ByteAction.READ)
    clock.now = 0.2
    progress.update(50)
    progress.finish(100)
    assert capsys.readouterr().err == "validate: 100 bytes read in 0.2 s\n"


@pytest.mark.parametrize(
    "line", ["validate: 1 MB read in 11.0 s", "", "\x1e", '\x1e{"phase": 7}', '{"phase": "validate"}']
)
def test_lines_without_a_tick_are_ignored(line: str) -> None:
    assert tick_of(line) is None
