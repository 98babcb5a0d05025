"""What becomes of a task that fails: the one mapping from our errors to Airflow's.

A task ends with an error's sentence: it logs it and leaves as a process would, with the error's exit code. A final
error is not tried again; a transient one is, and so is a process that was lost, with growing pauses. A fault of ours is
final, too, and logged with its traceback; what Airflow and its providers raise goes as the task says.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from airflow.sdk import Context, RetryDecision, RetryPolicy

from rescale.errors import RescaleError, unexpected
from rescale.names import printable
from rescale.orchestration.words import told_in_words_of_the_form

log = logging.getLogger(__name__)


class TaskEnded(SystemExit):
    """Ends a task with one of our errors; Airflow logs the exit code of a `SystemExit`, and no traceback."""

    def __init__(self, error: RescaleError) -> None:
        super().__init__(error.exit_code)
        self.error = error

    def __str__(self) -> str:
        return str(self.error)


class ByOurErrors(RetryPolicy):
    """Final errors fail at once, with their sentence as the reason; all else is up to `retries`."""

    def evaluate(
        self,
        exception: BaseException,
        try_number: int,  # noqa: ARG002
        max_tries: int,  # noqa: ARG002
        context: Context | None = None,  # noqa: ARG002
    ) -> RetryDecision:
        if not isinstance(exception, TaskEnded):
            return RetryDecision.default()
        sentence = printable(exception.error.what)
        return RetryDecision.fail(sentence) if exception.error.final else RetryDecision.retry(reason=sentence)


ATTEMPTS: dict[str, Any] = {
    "retries": 4,
    "retry_delay": timedelta(seconds=10),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=5),
    "retry_policy": ByOurErrors(),
}
"""Arguments of every task: pauses of 10, 20, 40, 80 seconds."""


def is_ours(error: Exception) -> bool:
    """Whether it is one of our errors, or Python's own, which is a fault of ours."""
    return isinstance(error, RescaleError) or type(error).__module__ == "builtins"


@contextmanager
def ended_by_our_errors() -> Iterator[None]:
    """In the block our errors end the task, in words that stand in a form; Python's own do, as faults of ours."""
    try:
        yield
    except Exception as error:
        if not is_ours(error):
            raise
        ours = unexpected(error)
        told_in_words_of_the_form(ours)
        log.error("%s", ours)
        raise TaskEnded(ours) from None
