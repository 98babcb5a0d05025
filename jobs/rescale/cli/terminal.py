"""What standard error looks like where it is a terminal. Nothing else needs `rich`, which takes a while to load."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

from rescale.errors import RescaleError
from rescale.names import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

_MOMENT_SECONDS = 1.0

_ADVICE = "  what to do: "


def moves_the_cursor() -> bool:
    """Whether standard error is a terminal on which something can be drawn anew."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def shows_colours() -> bool:
    """As https://no-color.org asks for."""
    return moves_the_cursor() and not os.environ.get("NO_COLOR")


def console() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Where the block takes more than a moment, a terminal says for what somebody waits, until it is over."""
    if not moves_the_cursor():
        yield
        return
    shown: list[Live] = []

    def show() -> None:
        from rich.live import Live
        from rich.spinner import Spinner
        from rich.text import Text

        spinner = Spinner("dots", Text(printable(what)))
        live = Live(spinner, console=console(), transient=True, redirect_stdout=False, redirect_stderr=False)
        live.start()
        shown.append(live)

    timer = Timer(_MOMENT_SECONDS, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for live in shown:
            live.stop()


def coloured(error: RescaleError) -> Text:
    """An error as it is printed elsewhere, with what is wrong and what to do about it in colours."""
    from rich.text import Text

    what, *details = str(error).split("\n")
    text = Text.assemble(("error:", "bold red"), " ", (what, "bold"))
    for line in details:
        text.append("\n")
        text.append(line, "green" if line.startswith(_ADVICE) else "dim" if line.startswith("    ") else "")
    return text
