"""Output on a terminal: spinners and colours. Only this module needs `rich`, which is slow to import."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

from rescale.text.errors import RescaleError
from rescale.text.names import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

_SPINNER_DELAY_SECONDS = 1.0

_ADVICE = "  what to do: "


def can_draw() -> bool:
    """Return whether standard error is a terminal on which lines can be redrawn."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def shows_colours() -> bool:
    """Return whether standard error shows colours (https://no-color.org)."""
    return can_draw() and not os.environ.get("NO_COLOR")


def console() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show a spinner with the text `what` on a terminal if the block takes more than a second."""
    if not can_draw():
        yield
        return
    displays: list[Live] = []

    def show() -> None:
        from rich.live import Live
        from rich.spinner import Spinner
        from rich.text import Text

        spinner = Spinner("dots", Text(printable(what)))
        live = Live(spinner, console=console(), transient=True, redirect_stdout=False, redirect_stderr=False)
        live.start()
        displays.append(live)

    timer = Timer(_SPINNER_DELAY_SECONDS, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for live in displays:
            live.stop()


def coloured(error: RescaleError) -> Text:
    """Return the text of an error, with the summary and the advice in colours."""
    from rich.text import Text

    what, *details = str(error).split("\n")
    text = Text.assemble(("error:", "bold red"), " ", (what, "bold"))
    for line in details:
        text.append("\n")
        text.append(line, "green" if line.startswith(_ADVICE) else "dim" if line.startswith("    ") else "")
    return text
