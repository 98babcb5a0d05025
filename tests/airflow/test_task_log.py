"""Lines are logged at their levels, and long ones are wrapped."""

from __future__ import annotations

import logging

import pytest

from rescale.airflow.task_log import LINE_WIDTH, StepLog, log_text

_STEP = """
WARNING: Using incubator modules: jdk.incubator.vector
reshuffle keyed state: begun, 45 KB to go
warning: something is odd
/usr/lib/python3/a.py:7: DeprecationWarning: old
WARN Spark: TaskSetManager: Lost task 0.0
ERROR Spark: Executor: Exception in task
Traceback (most recent call last):
  File "a.py", line 1, in <module>
ValueError: no
reshuffle keyed state: 45 KB in 3.1 s
error: it does not add up
"""


def test_control_characters_in_a_name_are_escaped_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    log_text("operator \x1b[31mred\x0bgone\u2028error: forged")
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", r"operator \x1b[31mred\x0bgone\u2028error: forged")
    ]


def test_lines_of_a_step_are_logged_at_their_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    step = StepLog()
    for line in _STEP.splitlines():
        step.log_line(line)
    assert [(record.levelname, record.message.split(" ")[0]) for record in caplog.records] == [
        ("INFO", "reshuffle"),
        ("WARNING", "warning:"),
        ("WARNING", "/usr/lib/python3/a.py:7:"),
        ("WARNING", "WARN"),
        ("ERROR", "ERROR"),
        ("ERROR", "Traceback"),
        ("ERROR", ""),
        ("ERROR", "ValueError:"),
        ("INFO", "reshuffle"),
        ("ERROR", "error:"),
    ]


def test_long_sentences_are_wrapped_but_tables_are_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    row = "operator   " + "column   " * 40
    log_text(f"warning: {'a long sentence ' * 30}\n{row}\nplain")
    warned = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) > 2
    assert all(len(line) <= LINE_WIDTH for line in warned)
    logged = [record.message for record in caplog.records if record.levelno == logging.INFO]
    assert logged == [row, "plain"]
