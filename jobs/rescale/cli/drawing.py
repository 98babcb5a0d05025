"""Progress of a step, drawn on a terminal below the lines that it prints."""

from __future__ import annotations

from typing import Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rescale.cli.terminal import console, spinner
from rescale.text.units import duration, human_bytes
from rescale.ticks import Tick


class Drawing:
    """Progress bar with the name of the current phase, shown during the block. Printed lines stay above it.

    Before and between phases there is a spinner.
    """

    def __init__(self) -> None:
        self._tick: Tick | None = None
        self._spinner = spinner()
        self._live = Live(
            get_renderable=self._renderable,
            console=console(),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, line: str) -> None:
        self._live.console.print(Text(line))

    def draw(self, tick: Tick) -> None:
        self._tick = None if tick.over else tick
        self._live.refresh()

    def _renderable(self) -> RenderableType:
        tick = self._tick
        if tick is None:
            return self._spinner
        bar = Table.grid(padding=(0, 1), expand=True)
        bar.add_column(ratio=1)
        bar.add_column(no_wrap=True)
        bar.add_row(ProgressBar(tick.total, tick.done, pulse=not tick.done), progress_text(tick))
        return Group(Text(tick.phase), bar)


def progress_text(tick: Tick) -> str:
    """Return progress such as `1.2 GB of 3.4 GB, 85 MB/s, about 26 seconds left`; `3.4 GB to go` while tasks start."""
    if not tick.done:
        return f"{human_bytes(tick.total)} to go"
    parts = [f"{human_bytes(tick.done)} of {human_bytes(tick.total)}"]
    if tick.rate is not None:
        parts.append(f"{human_bytes(tick.rate)}/s")
    if tick.left is not None:
        parts.append(f"about {duration(tick.left)} left")
    return ", ".join(parts)
