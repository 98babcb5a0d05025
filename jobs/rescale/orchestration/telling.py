"""What a task says in its log, at the level that it deserves: a line for each line, none longer than a page is wide."""

from __future__ import annotations

import logging
import re
import textwrap

from rescale.names import printable
from rescale.orchestration.words import in_words_of_the_form

log = logging.getLogger(__name__)

WIDTH = 140
"""Characters; what is longer would run out of the log's page. Tables keep their lines."""

_LEVELS = {"error": logging.ERROR, "warning": logging.WARNING}

_OF_SPARK = re.compile(r"(ERROR|FATAL|WARN|INFO|DEBUG|TRACE) Spark: ")
_OF_PYTHON = re.compile(r"\S+:\d+: \w*Warning: ")
_NOISE = re.compile(r"WARNING: Using incubator modules: |\s*$")
"""What the JDK says to everybody who starts Spark, and empty lines."""


def tell(text: str) -> None:
    """Says a page of ours, in words of the form; a line that begins with `warning:` is one."""
    for line in map(printable, in_words_of_the_form(text).split("\n")):
        level = level_of(line)
        for part in _wrapped(line):
            log.log(level, "%s", part)


class StepLog:
    """Says the lines of a step's process. Those of a traceback are an error's, up to the exception itself."""

    def __init__(self) -> None:
        self._in_traceback = False

    def say(self, line: str) -> None:
        """A line of the step's standard output or standard error."""
        if _NOISE.match(line):
            return
        level = level_of(line)
        if line.startswith("Traceback (most recent call last)"):
            self._in_traceback = True
        if self._in_traceback:
            level = logging.ERROR
            self._in_traceback = line.startswith(("Traceback", " "))
        for part in _wrapped(line):
            log.log(level, "%s", part)


def level_of(line: str) -> int:
    """What a line says of its own level; what says nothing is information."""
    if found := _OF_SPARK.match(line):
        word = found[1]
        return logging.ERROR if word in ("ERROR", "FATAL") else logging.WARNING if word == "WARN" else logging.INFO
    if _OF_PYTHON.match(line):
        return logging.WARNING
    return _LEVELS.get(line.partition(":")[0].lower(), logging.INFO)


def _wrapped(line: str) -> list[str]:
    """The line as it is, or a sentence in pieces that are indented like it."""
    if len(line) <= WIDTH or "  " in line.strip():  # columns
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line.strip(),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
