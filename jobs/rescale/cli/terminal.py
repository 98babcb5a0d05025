"""Output on standard error. Spinners and colours on a terminal need `rich`, which is slow to import."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOBase
from threading import Timer
from typing import TYPE_CHECKING, Any, TextIO

from rescale.text.errors import RescaleError
from rescale.text.names import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner
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

    standard_error: Any = _StandardError()
    return Console(file=standard_error, highlight=False, soft_wrap=True)


class _StandardError(TextIOBase):
    """Standard error for `rich`. If the terminal is closed during a run, `print_remark` discards the output."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return sys.stderr.encoding

    def isatty(self) -> bool:
        return sys.stderr.isatty()

    def write(self, text: str) -> int:
        print_remark(text, end="")
        return len(text)


def print_remark(text: str, end: str = "\n") -> None:
    """Print the text on standard error; if it cannot take the text, as on a full disk, discard all further output."""
    try:
        print(text, end=end, file=sys.stderr, flush=True)
    except BrokenPipeError:
        raise
    except OSError:  # the exit code still shows how the command ended
        redirect_to_devnull(sys.stderr)


def redirect_to_devnull(stream: TextIO) -> None:
    """Point the stream at the null device: later writes are discarded, and none fails."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def spinner(text: str = "") -> Spinner:
    """Return a spinner with a text behind it; on a terminal without UTF-8, it consists of ASCII characters."""
    from rich.spinner import Spinner
    from rich.text import Text

    has_utf8 = sys.stderr.encoding.lower().startswith("utf")
    return Spinner("dots" if has_utf8 else "line", Text(printable(text)))


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show a spinner with the text `what` on a terminal if the block takes more than a second."""
    if not can_draw():
        yield
        return
    displays: list[Live] = []

    def start_spinner() -> None:
        from rich.live import Live

        live = Live(spinner(what), console=console(), transient=True, redirect_stdout=False, redirect_stderr=False)
        live.start()
        displays.append(live)

    timer = Timer(_SPINNER_DELAY_SECONDS, start_spinner)
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
