"""An operator that frees the target of a rescale that did not publish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator, Context

from rescale.airflow.connections.access import storage_access
from rescale.airflow.forms.form import discard_form
from rescale.airflow.forms.given_values import check_values
from rescale.airflow.steps.earlier_tasks import Summary
from rescale.airflow.steps.retries import RETRIES, task_errors


class DiscardOperator(BaseOperator):
    """Operator that removes the files and the claim of a rescale that did not publish: its target is free again.

    It never removes a published result, or files that Rescale did not write. It fails while the run that claims the
    target is running. Its output has the `target`, and the numbers of files `removed` and `left`.

    :param target: target of the rescale.
    :param connection: id of an Airflow connection of type aws; without it, the task uses the access of its worker.
    """

    template_fields: Sequence[str] = ("target", "connection")

    def __init__(self, *, target: str, connection: str | None = None, **arguments: Any) -> None:
        super().__init__(**{**RETRIES, "multiple_outputs": True, **arguments})
        self.target = target
        self.connection = connection

    def execute(self, context: Context) -> Summary:
        from rescale.airflow.savepoint_work import discard_unpublished

        with task_errors(), storage_access(self.connection):
            check_values({"target": self.target}, discard_form())
            return discard_unpublished(self.target, context["ti"])
