"""Maps our errors to Airflow's: how a task fails, and whether it is tried again.

A task logs the error's sentence, and ends like a process, with the error's exit code. It is tried again, with growing
pauses, after a transient error or if its process was lost, but not after a final error. A bug of ours is a final error,
logged with its traceback. Errors of Airflow and its providers follow the task's own settings.

Since Airflow 3.3, a retry policy tells final errors from transient ones. In older releases, a final error is also an
`AirflowFailException`, which Airflow does not try again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow import sdk
from rescale.airflow.forms.form_advice import reword_for_form
from rescale.text.errors import RescaleError, error_to_show
from rescale.text.names import printable

log = logging.getLogger(__name__)


class TaskEnded(SystemExit):
    """Exception that ends a task with one of our errors. Airflow logs the exit code of a `SystemExit`, no traceback."""

    def __init__(self, error: RescaleError) -> None:
        super().__init__(error.exit_code)
        self.error = error

    def __str__(self) -> str:
        return str(self.error)


class FinalTaskEnded(TaskEnded, AirflowFailException):
    """`TaskEnded` for a final error where Airflow has no retry policies."""


_RETRY_POLICY: dict[str, Any] = {}

if hasattr(sdk, "RetryPolicy"):

    class RetryByError(sdk.RetryPolicy):
        """Retry policy that fails a task at once for a final error, with the error's sentence as the reason.

        For all other errors, the task's `retries` apply.
        """

        def evaluate(
            self,
            exception: BaseException,
            try_number: int,  # noqa: ARG002
            max_tries: int,  # noqa: ARG002
            context: sdk.Context | None = None,  # noqa: ARG002
        ) -> sdk.RetryDecision:
            if not isinstance(exception, TaskEnded):
                return sdk.RetryDecision.default()
            sentence = printable(exception.error.what)
            return (
                sdk.RetryDecision.fail(sentence)
                if exception.error.is_final
                else sdk.RetryDecision.retry(reason=sentence)
            )

    _RETRY_POLICY = {"retry_policy": RetryByError()}

RETRIES: dict[str, Any] = {
    "retries": 4,
    "retry_delay": timedelta(seconds=10),
    # The factor by which pauses grow. In Airflow 3.1, it is a switch instead: True doubles them.
    "retry_exponential_backoff": True if sdk.BaseOperator.retry_exponential_backoff is False else 2.0,
    "max_retry_delay": timedelta(minutes=5),
    **_RETRY_POLICY,
}
"""Default arguments of all tasks: four retries, after pauses of 10–20, 20–40, 40–80 and 80–160 seconds."""


def is_own_error(error: Exception) -> bool:
    """Return whether an error is one of ours, or a built-in error of Python, which is a bug of ours."""
    return isinstance(error, RescaleError) or type(error).__module__ == "builtins"


@contextmanager
def task_errors() -> Iterator[None]:
    """End the task if the block raises one of our errors, worded for the form, or a built-in error of Python."""
    try:
        yield
    except Exception as error:
        if not is_own_error(error):
            raise
        rescale_error = error_to_show(error)
        reword_for_form(rescale_error)
        log.error("%s", rescale_error)
        raise (FinalTaskEnded if rescale_error.is_final and not _RETRY_POLICY else TaskEnded)(rescale_error) from None
