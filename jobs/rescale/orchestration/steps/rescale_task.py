"""What all tasks of ours have in common: the access that the form names, and how they end and are tried again."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import BaseOperatorLink, get_current_context
from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory
from airflow.sdk.exceptions import AirflowSkipException

from rescale.orchestration.connections.access import storage_access
from rescale.orchestration.filled_form import stripped
from rescale.orchestration.steps.attempts import ATTEMPTS, ended_by_our_errors
from rescale.orchestration.steps.earlier_tasks import Summary
from rescale.orchestration.steps.lineage import Lineage, as_openlineage
from rescale.planning.values.plan import Plan

log = logging.getLogger(__name__)

Answer = Callable[[Plan, Summary], Summary]
"""From a plan and a step's result document to what the task gives."""

Words = Callable[[Mapping[str, Any]], list[str]]
"""From a filled form to more arguments of a step."""


NOTHING_TO_DO = "nothing_to_do"
"""The key of the XCom in which a task that skips itself says why; one that Airflow skips, or that is cancelled, has
none."""


def skip_task(reason: str) -> NoReturn:
    """Ends a task as skipped; Airflow alone would not tell why."""
    log.warning("%s", reason)
    get_current_context()["ti"].xcom_push(NOTHING_TO_DO, reason)
    raise AirflowSkipException(reason)


class RescaleOperator(DecoratedOperator, PythonOperator):
    """A function as a task, with `links` on its page; one that knows it puts down its `lineage` while it runs."""

    template_fields = ("op_args", "op_kwargs")
    template_fields_renderers: ClassVar = {"op_args": "py", "op_kwargs": "py"}

    def __init__(
        self, *, python_callable: Any, op_args: Any, op_kwargs: Any, links: Sequence[BaseOperatorLink] = (), **more: Any
    ) -> None:
        called = {"python_callable": python_callable, "op_args": op_args, "op_kwargs": op_kwargs}
        super().__init__(kwargs_to_upstream=called, **called, **more)
        self.operator_extra_links = tuple(links)
        self.lineage: Lineage | None = None

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002
        """Asked for by the provider of OpenLineage, where there is one."""
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
    """A task that has the access which the form names, and that our errors end with their sentence.

    `arguments` are those of `RescaleOperator`; `multiple_outputs`: other tasks take single values of what it returns.
    Without `has_access` it asks for that itself, where it needs it.
    """

    @functools.wraps(function)
    def with_access(*inputs: Any, params: Mapping[str, Any], **more: Any) -> Summary:
        with ended_by_our_errors():
            params = stripped(params)
            with storage_access(params["connection"] if has_access else None):
                return function(*inputs, params=params, **more)

    arguments |= {"task_id": task_id, "task_display_name": display_name, **ATTEMPTS}
    make = task_decorator_factory(
        multiple_outputs=multiple_outputs, decorated_operator_class=RescaleOperator, **arguments
    )
    return make(with_access)
