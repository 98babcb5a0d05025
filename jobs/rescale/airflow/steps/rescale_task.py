"""Base of all tasks: it gives them the access that the form names, and maps our errors to failures and retries."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import BaseOperatorLink, get_current_context
from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory

from rescale.airflow.connections.access import form_access
from rescale.airflow.forms.filled_form import trimmed_values
from rescale.airflow.steps.earlier_tasks import Summary
from rescale.airflow.steps.lineage import Lineage, as_openlineage
from rescale.airflow.steps.retries import RETRIES, task_errors

if TYPE_CHECKING:
    from rescale.plan.plan import Plan
    from rescale.process import ResultDocument

log = logging.getLogger(__name__)

SummaryOf = Callable[["Plan", "ResultDocument"], Summary]
"""Function from a plan and a step's result document to the task's summary."""

ArgumentsOf = Callable[[Mapping[str, Any]], list[str]]
"""Function from a filled form to further arguments of a step."""


NOTHING_TO_DO_KEY = "nothing_to_do"
"""Key of the XCom with the reason why a task skipped itself. Tasks that Airflow skipped or cancelled do not have it."""


def skip_task(reason: str) -> NoReturn:
    """End a task as skipped, and record the reason, which Airflow itself does not show."""
    log.info("%s", reason)
    get_current_context()["ti"].xcom_push(NOTHING_TO_DO_KEY, reason)
    raise AirflowSkipException(reason)


class RescaleTask(DecoratedOperator, PythonOperator):
    """Operator that calls a Python function.

    `links` are buttons on its page in Airflow, and the function may set its `lineage`.
    """

    template_fields = ("op_args", "op_kwargs")
    template_fields_renderers: ClassVar = {"op_args": "py", "op_kwargs": "py"}

    def __init__(
        self,
        *,
        python_callable: Any,
        op_args: Any,
        op_kwargs: Any,
        links: Sequence[BaseOperatorLink] = (),
        **keywords: Any,
    ) -> None:
        call_arguments = {"python_callable": python_callable, "op_args": op_args, "op_kwargs": op_kwargs}
        super().__init__(kwargs_to_upstream=call_arguments, **call_arguments, **keywords)
        self.operator_extra_links = tuple(links)
        self.lineage: Lineage | None = None

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002
        """Return the lineage for the OpenLineage provider, which calls this method."""
        return as_openlineage(self.lineage)


def rescale_task(
    function: Callable[..., Summary],
    task_id: str,
    display_name: str,
    *,
    multiple_outputs: bool = False,
    has_access: bool = True,
    **arguments: Any,
) -> Any:
    """Return a factory of tasks that call a function with the access that the form names, inside `task_errors`.

    The function's return value becomes an XCom; it is not logged. With `multiple_outputs`, other tasks can read single
    fields of it. Without `has_access`, the function opens `form_access` itself when it needs it. `arguments` are those
    of `RescaleTask`.
    """

    @functools.wraps(function)
    def with_access(*inputs: Any, params: Mapping[str, Any], **keywords: Any) -> Summary:
        with task_errors():
            params = trimmed_values(params)
            with form_access(params) if has_access else nullcontext():
                return function(*inputs, params=params, **keywords)

    task_arguments = {"task_id": task_id, "task_display_name": display_name, "show_return_value_in_logs": False}
    arguments = {**task_arguments, **RETRIES, **arguments}
    make_task = task_decorator_factory(
        multiple_outputs=multiple_outputs, decorated_operator_class=RescaleTask, **arguments
    )
    return make_task(with_access)
