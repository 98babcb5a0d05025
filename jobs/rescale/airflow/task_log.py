"""Lines in a task's log: each has its own level, and long sentences are wrapped."""

from __future__ import annotations

import logging
import re
import textwrap

from rescale.text.names import printable

log = logging.getLogger(__name__)

LINE_WIDTH = 140
"""Characters of a line that fit into Airflow's page for logs. Rows of tables are not wrapped."""

_LEVEL_BY_PREFIX = {"error": logging.ERROR, "warning": logging.WARNING}

_SPARK_LINE = re.compile(r"(ERROR|FATAL|WARN|INFO|DEBUG|TRACE) Spark: ")
_PYTHON_WARNING = re.compile(r"\S+:\d+: \w*Warning: ")
_NOISE = re.compile(r"WARNING: Using incubator modules: |\s*$")
"""A warning that the JDK prints whenever Spark starts, and empty lines."""


def log_text(text: str) -> None:
    """Log a text, line by line, each at the level of its prefix (`error:`, `warning:`)."""
    for line in map(printable, text.split("\n")):
        level = level_of(line)
        for wrapped_line in _wrap(line):
            log.log(level, "%s", wrapped_line)


class StepLog:
    """Log of a step's process. The lines of a traceback, up to the exception, have the level ERROR."""

    def __init__(self) -> None:
        self._in_traceback = False

    def log_line(self, line: str) -> None:
        """Log a line of the step's standard output or standard error."""
        if _NOISE.match(line):
            return
        level = level_of(line)
        if line.startswith("Traceback (most recent call last)"):
            self._in_traceback = True
        if self._in_traceback:
            level = logging.ERROR
            self._in_traceback = line.startswith(("Traceback", " "))
        for wrapped_line in _wrap(line):
            log.log(level, "%s", wrapped_line)


def level_of(line: str) -> int:
    """Return the level that a line begins with; INFO for all other lines."""
    if match := _SPARK_LINE.match(line):
        level_name = match[1]
        return (
            logging.ERROR
            if level_name in ("ERROR", "FATAL")
            else logging.WARNING
            if level_name == "WARN"
            else logging.INFO
        )
    if _PYTHON_WARNING.match(line):
        return logging.WARNING
    return _LEVEL_BY_PREFIX.get(line.partition(":")[0].lower(), logging.INFO)


def _wrap(line: str) -> list[str]:
    """Wrap a long sentence into lines with its indentation; leave short lines and rows of tables unchanged."""
    if len(line) <= LINE_WIDTH or "  " in line.strip():  # two spaces in a row separate the columns of a table
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line.strip(),
        LINE_WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
