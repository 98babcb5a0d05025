"""Colours and progress bars on a terminal, and their absence elsewhere."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from fcntl import ioctl
from pathlib import Path

import pytest

from rescale.cli.drawing import progress_text
from rescale.ticks import Tick
from support.slow import slow
from support.snapshots import directory

PLAIN_ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")
}

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def run_on_terminal(arguments: Sequence[str], **environment: str) -> tuple[int, str, str]:
    """Run Python; return exit code, standard output (a pipe), and standard error, which is a terminal of 80 columns."""
    reader, terminal = pty.openpty()
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with subprocess.Popen(
        [sys.executable, *arguments],
        env={**PLAIN_ENVIRONMENT, "TERM": "xterm-256color", **environment},
        stdout=subprocess.PIPE,
        stderr=terminal,
        stdin=terminal,
        text=True,
    ) as process:
        os.close(terminal)
        output = b""
        while chunk := _read(reader):
            output += chunk
        stdout = process.stdout.read() if process.stdout else ""
    os.close(reader)
    return process.returncode, stdout, output.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError as error:
        if error.errno != errno.EIO:  # EIO: all writers are gone
            raise
        return b""


def rescale_arguments(*arguments: str) -> list[str]:
    return ["-m", "rescale.cli.main", *arguments]


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}, slow({"TERM": "dumb"}), slow({"TERM": ""})])
def test_error_is_coloured_only_where_colours_are_wanted(environment: dict[str, str]) -> None:
    code, stdout, stderr = run_on_terminal(rescale_arguments("inspect", "/nowhere", "--output", "json"), **environment)
    assert (code, json.loads(stdout)["what"]) == (2, "there is no snapshot")
    assert bool(COLOUR.search(stderr)) == (not environment)
    lines = COLOUR.sub("", stderr).splitlines()
    assert lines[0] == "error: there is no snapshot"
    assert lines[-1].startswith("  what to do: name the directory that Flink printed when it took the savepoint, or ")


def test_run_draws_its_progress_and_answers_as_without_a_terminal(tmp_path: Path) -> None:
    hook = "import rescale.execution.progress as progress\nprogress._SECONDS_BETWEEN_TICKS = 0\n"
    (tmp_path / "sitecustomize.py").write_text(
        f"import sys\nif 'move_rounds' in sys.orig_argv:\n    {hook}".replace("\np", "\n    p")
    )
    command = rescale_arguments(
        "run", directory("2-clicks"), "--target", str(tmp_path / "t"), "--parallelism", "3", "--output", "json"
    )
    code, stdout, stderr = run_on_terminal(command, PYTHONPATH=str(tmp_path), NO_COLOR="1")
    assert code == 0, stderr
    assert json.loads(stdout)["already_published"] is False
    assert "━" in stderr
    assert "\x1e" not in stderr
    assert not re.search(r"\x1b\[\d+m", stderr), "the output has a colour"
    assert re.search(r"validate: \S+ kB read on both sides in \d+\.\d s\r\n", stderr), stderr
    assert stderr.rindex("\x1b[?25h") > stderr.rindex("\x1b[?25l"), "the cursor stays hidden"


def test_run_whose_terminal_goes_away_is_finished(tmp_path: Path) -> None:
    """A run in the background outlives the shell that started it, if the shell has disowned it."""
    reader, terminal = pty.openpty()
    with subprocess.Popen(
        [
            sys.executable,
            *rescale_arguments("run", directory("2-clicks"), "--target", str(tmp_path / "t"), "--parallelism", "3"),
        ],
        env={**PLAIN_ENVIRONMENT, "TERM": "xterm-256color"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
    ) as process:
        os.close(terminal)
        output = b""
        while b"the job starts with" not in output:
            chunk = _read(reader)
            assert chunk, output
            output += chunk
        os.close(reader)
        stdout = process.stdout.read() if process.stdout else ""
    assert process.returncode == 0
    assert "is published" in stdout


BAR_SCRIPT = """
import sys
from rescale.cli.drawing import Drawing
from rescale.ticks import Tick
with Drawing() as drawing:
    drawing.draw(Tick("write every record under its new key group", 0, 3_000_000_000))
    drawing.draw(Tick("write every record under its new key group", 1_000_000_000, 3_000_000_000, 85e6, 23.5))
    drawing.say("compiling")
    drawing.draw(Tick("write every record under its new key group", 3_000_000_000, 3_000_000_000, over=True))
"""


def test_progress_bar_fits_into_eighty_columns() -> None:
    code, _, stderr = run_on_terminal(["-c", BAR_SCRIPT])
    assert code == 0, stderr
    lines = [COLOUR.sub("", line) for line in re.split(r"[\r\n]+|\x1b\[\d*[AK]", stderr)]
    assert max(len(re.sub(r"\x1b\[\S*?[a-zA-Z]", "", line)) for line in lines) <= 80
    assert "write every record under its new key group" in lines
    assert any("━" in line and line.rstrip().endswith("1 GB of 3 GB, 85 MB/s, about 24 seconds left") for line in lines)
    assert "compiling" in lines


def test_progress_is_drawn_in_ascii_on_a_terminal_without_utf_8() -> None:
    code, _, stderr = run_on_terminal(["-c", BAR_SCRIPT], PYTHONIOENCODING="latin-1")
    assert code == 0, stderr
    assert "1 GB of 3 GB" in stderr
    assert "\\u" not in stderr
    assert stderr.isascii()


@pytest.mark.parametrize(
    ("tick", "progress"),
    [
        (Tick("validate", 0, 5_000_000), "5 MB to go"),
        (Tick("validate", 1_000_000, 5_000_000, 1e6, 4.0), "1 MB of 5 MB, 1 MB/s, about 4 seconds left"),
    ],
)
def test_progress_shows_rate_and_time_left_only_if_they_are_known(tick: Tick, progress: str) -> None:
    assert progress_text(tick) == progress
