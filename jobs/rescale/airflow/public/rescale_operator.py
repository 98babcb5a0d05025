"""A whole rescale as one operator."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import BaseOperator, Context
from airflow.sdk.bases.operator import ExecutorSafeguard

from rescale.airflow.assets import RESCALED_SAVEPOINT
from rescale.airflow.connections.access import DRIVER_POD_VARIABLE, form_access
from rescale.airflow.forms.dag_arguments import form_of_platform
from rescale.airflow.forms.filled_form import proof_of, trimmed_values
from rescale.airflow.forms.given_values import check_values, values_with_defaults
from rescale.airflow.reports.report_link import ReportLink
from rescale.airflow.steps.earlier_tasks import Summary
from rescale.airflow.steps.lineage import Lineage, as_openlineage
from rescale.airflow.steps.required_approval import plan_to_execute
from rescale.airflow.steps.retries import RETRIES, task_errors
from rescale.airflow.steps.step_task import step_in_process
from rescale.runstate.step import Step
from rescale.text.errors import RequestError

if TYPE_CHECKING:
    from rescale.plan.plan import Plan
    from rescale.process import ResultDocument

_FIELD_NAMES = (
    *("source", "target", "parallelism", "max_parallelism", "same_shape", "connection", "source_connection"),
    *("operators", "key_hashes"),
    *("renames", "operator_names", "without_offsets", "kafka_offsets", "kafka_topics", "kafka_sources", "format"),
    *("files", "proof", "allowed_prefixes", "moved", "accept_unconditional_publish"),
)


class RescaleOperator(BaseOperator):
    """Operator that rescales a snapshot: it plans, moves the state, compares it with the source, and publishes it.

    Every argument is a template, and may be the output of another task. None means the default of the platform's
    settings, or that of the form. The task may be killed and tried again at any time: it resumes where it was. If steps
    run in pods, it waits without a worker; otherwise, steps are processes of its worker. It is skipped if the state
    already has the requested shape.

    Nobody can approve its plan. So it cannot drop state, and it fails if the plan needs an approval, for example by the
    settings of the platform. `rescale_task_group` asks for approvals.

    Its output has fields that describe the published result: `target`, `start` (a command), `starting` (for
    `HandOverOperator`), `metadata_sha256`, `certificate` and `certificate_sha256`. The asset `RESCALED_SAVEPOINT` gets
    an event, unless it already has one of this result.

    :param source: directory of the snapshot: `s3://bucket/key`, or an absolute path that workers can reach.
    :param target: directory of the result, which does not exist yet.
    :param parallelism: new parallelism of every operator whose parallelism may change.
    :param max_parallelism: new number of key groups of every operator except those with max parallelism 1.
    :param same_shape: whether to copy the snapshot unchanged.
    :param connection: id of an Airflow connection of type aws; without it, the task uses the access of its worker.
    :param source_connection: id of a connection for the source, if it is in another store than the target.
    :param operators: shapes of single operators: lines such as `uid=6/256`, or a mapping from operators to shapes.
    :param key_hashes: hashes of keys with your own `hashCode`, as lines such as `uid=objects-hash(a,b)`.
    :param renames: operators to rename, as lines `old=new`.
    :param operator_names: names of operators that the snapshot does not have, as lines `uid` or `operator-id name`.
    :param without_offsets: operators that may start without their Kafka offsets.
    :param kafka_offsets: new offsets of Kafka sources, in CSV or JSON.
    :param kafka_topics: Kafka topics to rename, as lines `old=new`.
    :param kafka_sources: Kafka consumers that become sources, as lines `old=new` or `old`.
    :param format: format of the result: `keep`, `canonical` or `rocksdb`.
    :param files: `copy`, or `refer` for a result that uses RocksDB files of the source.
    :param proof: depth of the comparison with the source: `records` or `files`.
    :param allowed_prefixes: more directories that may hold files of the snapshot.
    :param moved: directories of files that were moved, as lines `OLD=NEW`.
    :param accept_unconditional_publish: whether to publish to a store that does not support put-if-absent.
    """

    template_fields: Sequence[str] = _FIELD_NAMES
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        source: str,
        target: str,
        parallelism: int | str | None = None,
        max_parallelism: int | str | None = None,
        same_shape: bool | None = None,
        connection: str | None = None,
        source_connection: str | None = None,
        operators: Sequence[str] | Mapping[str, Mapping[str, int]] | None = None,
        key_hashes: Sequence[str] | None = None,
        renames: Sequence[str] | None = None,
        operator_names: Sequence[str] | None = None,
        without_offsets: Sequence[str] | None = None,
        kafka_offsets: str | None = None,
        kafka_topics: Sequence[str] | None = None,
        kafka_sources: Sequence[str] | None = None,
        format: str | None = None,  # noqa: A002  # the name of the Param
        files: str | None = None,
        proof: str | None = None,
        allowed_prefixes: Sequence[str] | None = None,
        moved: Sequence[str] | None = None,
        accept_unconditional_publish: bool | None = None,
        **arguments: Any,
    ) -> None:
        given_arguments = locals()
        defaults = {"inlets": [RESCALED_SAVEPOINT], "outlets": [RESCALED_SAVEPOINT], "multiple_outputs": True}
        super().__init__(**{**RETRIES, **defaults, **arguments})
        for name in _FIELD_NAMES:
            setattr(self, name, given_arguments[name])
        self.lineage: Lineage | None = None
        self._pod_operator: Any = None

    def execute(self, context: Context) -> Summary:
        """Run the rescale to its end, or until it has to wait for a pod."""
        from rescale.airflow.savepoint_work import inspect_source, make_plan

        with task_errors():
            form_values = self._form_values()
            with form_access(form_values):
                check_values(form_values, form_of_platform())
                inspect_source(form_values, form_values, {})
                plan_output = make_plan(form_values, {}, context["dag_run"], context["ti"], skips_without_work=True)
                _refuse_unapproved(plan_output, form_values)
                if template := os.environ.get(DRIVER_POD_VARIABLE):
                    pod_operator = self._create_pod_operator(template, plan_output, form_values)
                else:
                    step_in_process(Step.RUN, _no_summary, _proof_arguments)(plan_output, form_values)
                    return self._publish(plan_output, form_values, context)
        self._wait(pod_operator, plan_output, lambda: pod_operator.execute(context))
        return self._finish(plan_output, context)

    def pod_reported(
        self, context: Context, event: dict[str, Any], plan_output: Summary | None = None, **_: Any
    ) -> Summary:
        """Resume when the triggerer reports an event of the pod.

        If an older release of this package has deferred the task with other arguments, the task begins again: it makes
        the same plan, and finds its pod.
        """
        if plan_output is None:
            return self.execute(context)
        pod_operator = self._create_pod_operator(os.environ[DRIVER_POD_VARIABLE], plan_output, self._form_values())
        self._wait(pod_operator, plan_output, lambda: pod_operator.trigger_reentry(context, event))
        return self._finish(plan_output, context)

    def on_kill(self) -> None:
        """Delete the pod of a task that is cancelled while it starts one."""
        if self._pod_operator is not None:
            self._pod_operator.on_kill()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002
        """Return the lineage for the OpenLineage provider, which calls this method."""
        return as_openlineage(self.lineage)

    def _form_values(self) -> dict[str, Any]:
        return trimmed_values(values_with_defaults({name: getattr(self, name) for name in _FIELD_NAMES}))

    def _create_pod_operator(self, template: str, plan_output: Summary, form_values: Mapping[str, Any]) -> Any:
        from rescale.airflow.steps.pods import StepPod  # imports the Kubernetes client

        self._pod_operator = StepPod(
            task_id=self.task_id,
            step=Step.RUN,
            plan_output=plan_output,
            values=form_values,
            template=template,
            summary_of=_no_summary,
            arguments_of=_proof_arguments,
        )
        return self._pod_operator

    def _wait(self, pod_operator: Any, plan_output: Summary, pod_method: Callable[[], None]) -> None:
        """Call `pod_method`, a method of the pod's operator. If that operator defers itself, defer this task."""
        # This keeps Airflow from warning that an operator calls another operator.
        executing_token = ExecutorSafeguard.tracker.set(pod_operator)
        try:
            pod_method()
        except TaskDeferred as deferred:
            self.defer(
                trigger=deferred.trigger,
                method_name="pod_reported",
                kwargs={"plan_output": plan_output},
                timeout=deferred.timeout,
            )
        finally:
            ExecutorSafeguard.tracker.reset(executing_token)

    def _finish(self, plan_output: Summary, context: Context) -> Summary:
        form_values = self._form_values()
        with task_errors(), form_access(form_values):
            return self._publish(plan_output, form_values, context)

    def _publish(self, plan_output: Summary, form_values: Mapping[str, Any], context: Context) -> Summary:
        """Publish the result, and return its description."""
        from rescale.airflow.savepoint_work import add_event, publish_result, published_plan

        publish_output = publish_result(plan_output, form_values, context["ti"])
        plan, events = published_plan(plan_output), (context["inlet_events"], context["outlet_events"])
        if not add_event(plan, RESCALED_SAVEPOINT, *events):
            # Airflow would add an event to every outlet.
            self.outlets = [outlet for outlet in self.outlets if outlet != RESCALED_SAVEPOINT]
        return publish_output


def _refuse_unapproved(plan_output: Summary, form_values: Mapping[str, Any]) -> None:
    """Raise `RequestError` if the plan needs an approval and has none."""
    try:
        plan_to_execute(plan_output, form_values)
    except RequestError as error:
        error.found, error.advice = "an operator that cannot ask", "use rescale_task_group, which asks for the approval"
        raise


def _no_summary(plan: Plan, document: ResultDocument) -> Summary:  # noqa: ARG001
    return {}


def _proof_arguments(form_values: Mapping[str, Any]) -> list[str]:
    return ["--proof", proof_of(form_values).value]
