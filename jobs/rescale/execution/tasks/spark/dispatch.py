"""Progress and failures of Spark's jobs.

A task returns a final error as a row (`slices`): if it raised the error, Spark would try the task four times. Any other
error of a task's last attempt reaches the driver as a text from the JVM, from which this module restores it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile

from py4j.protocol import Py4JError, Py4JJavaError

from rescale.execution.progress import Progress
from rescale.execution.tasks.slices import FAILED_REPEATEDLY, RESUME_ADVICE
from rescale.text.errors import InternalError, RescaleError, StoreError

_POLL_SECONDS = 1.0
_TRACEBACK_START = "Traceback (most recent call last)"
_LINE_STARTS_AFTER_TRACEBACK = ("\t", " SQLSTATE")
"""Beginnings of the line that Spark appends to a Python traceback."""
_ERROR_PREFIX = f"{RescaleError.__module__}."
_STOPPED_MESSAGES = ("stopped SparkContext", "SparkContext was shut down")
"""Parts of Spark's messages for work that was submitted or running when Spark was stopped."""
_RETRIABLE_ERROR_NAMES = {"MemoryError", "OSError", "ConnectionResetError", "BrokenPipeError", "EOFError"}
"""Errors of a task after which another try may succeed."""


@contextmanager
def raise_spark_errors() -> Iterator[None]:
    """Raise a failure of Spark in the block as a `RescaleError`.

    If Spark's JVM has ended, py4j's error names only the command that it could not send
    (`GatewayClient.send_command`).
    """
    try:
        yield
    except Py4JJavaError as error:
        raise error_of_failed_task(str(error)) from None
    except (Py4JError, ConnectionError) as error:
        raise StoreError("Spark's JVM has ended", found=repr(error), advice=RESUME_ADVICE) from None


@contextmanager
def report_progress(progress: Progress, bytes_done: Callable[[], int]) -> Iterator[None]:
    """Report the bytes done about every second while the block runs."""
    finish_event = threading.Event()

    def report() -> None:
        while not finish_event.wait(_POLL_SECONDS):
            progress.update(bytes_done())

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        finish_event.set()
        reporter.join()
    progress.finish(bytes_done())


def error_of_failed_task(text: str) -> RescaleError:
    """Return the error with which a task failed, from py4j's text of the JVM's exception.

    An error of Rescale is restored; an unexpected Python exception becomes an `InternalError`.
    """
    if _TRACEBACK_START not in text:
        return _jvm_error(text.partition("\n: ")[2] or text)
    lines = text[text.rindex(_TRACEBACK_START) :].splitlines()
    traceback = list(takewhile(lambda line: line and not line.startswith(_LINE_STARTS_AFTER_TRACEBACK), lines))
    last_line = max(i for i, line in enumerate(traceback) if not line.startswith(" "))
    error_name, _, message = "\n".join(traceback[last_line:]).partition(": ")
    restored_error = (
        RescaleError.from_text(error_name.removeprefix(_ERROR_PREFIX), message)
        if error_name.startswith(_ERROR_PREFIX) and message
        else None
    )
    if restored_error is not None:
        return restored_error if restored_error.is_final else restored_error.located(advice=RESUME_ADVICE)
    summary = "; ".join(line.strip()[:300] for line in traceback[last_line:])
    if error_name.rpartition(".")[2] in _RETRIABLE_ERROR_NAMES:
        return StoreError(FAILED_REPEATEDLY, found=summary, advice=RESUME_ADVICE)
    return InternalError.from_message(summary, "\n".join(traceback))


def _jvm_error(message: str) -> StoreError:
    """Return the error for a failure outside of Python, with the message of the JVM's exception."""
    failure = "Spark has stopped" if any(part in message for part in _STOPPED_MESSAGES) else FAILED_REPEATEDLY
    return StoreError(failure, found=message.strip().splitlines()[0][:300], advice=RESUME_ADVICE)
