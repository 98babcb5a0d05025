"""The tasks of a rescale. A task can be killed at any point and run again: its output depends only on the plan.

Most tasks work in the worker, on metadata. Tasks that move or read state only wait for a step, which runs
in a process of its own or in a pod.

Airflow imports modules with tasks whenever it parses a DAG, so tasks import the modules for their work only when they
run. The work of the tasks below is in `savepoint_work`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import TriggerRule
from msgspec import structs

from rescale.airflow.assets import RESCALED_SAVEPOINT
from rescale.airflow.forms.filled_form import proof_of
from rescale.airflow.reports.report_link import ReportLink
from rescale.airflow.steps.earlier_tasks import (
    ANNOUNCE_TASK,
    INSPECT_TASK,
    PLAN_TASK,
    PUBLISH_TASK,
    REDISTRIBUTE_TASK,
    RESHUFFLE_TASK,
    VALIDATE_TASK,
    Summary,
    XComField,
)
from rescale.airflow.steps.rescale_task import rescale_task, skip_task
from rescale.airflow.steps.step_task import step_task
from rescale.runstate.step import Step

if TYPE_CHECKING:
    from rescale.plan.plan import Plan
    from rescale.process import ResultDocument


_UNLESS_REJECTED = TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS
"""Rule for the tasks after the approval, which must run even if the approval was skipped."""

PlaceXComs = Mapping[str, XComField] | None
"""Output fields of earlier tasks that hold `source` and `target`, if the form does not name these places."""


def _inspect(place_xcoms: PlaceXComs, params: Any = None, dag: Any = None, ti: Any = None) -> Summary:
    """Reads metadata and headers of the source, and checks that it is complete."""
    from rescale.airflow.savepoint_work import inspect_source

    return inspect_source(params, dag.params, pulled_places(place_xcoms, ti))


def _inspect_with_values(params: Any = None) -> Summary:
    """Reads metadata and headers of the source, and checks that it is complete."""
    from rescale.airflow.forms.dag_arguments import form_of_platform
    from rescale.airflow.forms.given_values import check_values
    from rescale.airflow.savepoint_work import inspect_source

    check_values(params, form_of_platform())
    return inspect_source(params, params, {})


def _show_plan(params: Any = None, ti: Any = None) -> Summary:
    """Plans as a run would, shows the plan, and writes nothing. Shows a plan that a run would refuse, too."""
    from rescale.airflow.savepoint_work import show_plan

    return show_plan(params, ti)


def _check_environment(params: Any = None) -> Summary:
    """Tests the target's store with probe files, which it removes, and this worker if steps run on it."""
    from rescale.airflow.environment import check_environment

    return check_environment(params)


def _discard(params: Any = None, dag: Any = None, ti: Any = None) -> Summary:
    """Removes the files that a run left in and beside its target, unless the run is still running or has published."""
    from rescale.airflow.forms.filled_form import refuse_unknown_fields
    from rescale.airflow.savepoint_work import discard_unpublished

    refuse_unknown_fields(params, dag.params)
    summary = discard_unpublished(params["target"], ti)
    if not summary["removed"]:
        skip_task(f"nothing to do: there are no files of an unpublished run in {summary['target']} or beside it")
    return summary


def _plan(place_xcoms: PlaceXComs, params: Any = None, dag_run: Any = None, ti: Any = None) -> Summary:
    """Makes the plan of everything that the run does, stores it beside the target, and claims the target for it."""
    from rescale.airflow.savepoint_work import make_plan

    # A plan that changes nothing is an error if the user names the source; if an earlier task does, skip the task.
    return make_plan(params, pulled_places(place_xcoms, ti), dag_run, ti, skips_without_work=place_xcoms is not None)


def pulled_places(place_xcoms: PlaceXComs, ti: Any) -> dict[str, Any]:
    """Return the places that earlier tasks of the run have determined."""
    return {place: field.pull(ti) for place, field in (place_xcoms or {}).items()}


def _moved_summary(plan: Plan, document: ResultDocument) -> Summary:  # noqa: ARG001
    from rescale.report.step_results import MovedStreams

    return structs.asdict(document.read(MovedStreams))


def _certificate_summary(plan: Plan, document: ResultDocument) -> Summary:
    from rescale.airflow.savepoint_work import report_certificate
    from rescale.runstate.certificate import Certificate

    return report_certificate(plan, document.read(Certificate))


def _rejected(params: Any = None, ti: Any = None) -> Summary:  # noqa: ARG001
    """Removes the staged files of a rejected plan, and fails: a rejected run must not be green."""
    from rescale.airflow.rejection import end_rejected

    end_rejected(ti)


def _publish(plan_output: Summary | None, params: Any = None, ti: Any = None) -> Summary:
    """Writes the certified metadata into the target with a single put: from then on Flink can restore the result."""
    from rescale.airflow.savepoint_work import publish_result

    return publish_result(plan_output, params, ti)


def _announce(
    plan_output: Summary | None,
    params: Any = None,  # noqa: ARG001
    inlet_events: Any = None,
    outlet_events: Any = None,
) -> Summary:
    """Adds an event with the URI of the result to the asset, unless the asset already has this event."""
    from rescale.airflow.savepoint_work import announce_result

    return announce_result(plan_output, inlet_events, outlet_events)


inspect = rescale_task(_inspect, INSPECT_TASK, "Inspect the source")
inspect_with_values = rescale_task(_inspect_with_values, INSPECT_TASK, "Inspect the source")
_REPORT_LINKS = (ReportLink(PLAN_TASK),)

plan = rescale_task(_plan, PLAN_TASK, "Plan", links=_REPORT_LINKS)
show_plan = rescale_task(_show_plan, PLAN_TASK, "Plan", links=_REPORT_LINKS)
check_environment = rescale_task(_check_environment, "check", "Check the environment")
rejected = rescale_task(_rejected, "rejected", "Plan rejected", trigger_rule=TriggerRule.ALL_FAILED)
discard_task = rescale_task(_discard, "discard", "Discard")
reshuffle = step_task(
    Step.RESHUFFLE,
    RESHUFFLE_TASK,
    "Reshuffle keyed state",
    "Moves keyed state to the subtasks that will own its key groups.",
    _moved_summary,
    trigger_rule=_UNLESS_REJECTED,
)
redistribute = step_task(
    Step.REDISTRIBUTE,
    REDISTRIBUTE_TASK,
    "Redistribute operator state",
    "Deals operator state to the new subtasks by its distribution mode.",
    _moved_summary,
    trigger_rule=_UNLESS_REJECTED,
)
validate = step_task(
    Step.VALIDATE,
    VALIDATE_TASK,
    "Validate the result",
    "Reads source and result back from storage, compares them, and writes the certificate.",
    _certificate_summary,
    arguments_of=lambda params: ["--proof", proof_of(params).value],
    links=_REPORT_LINKS,
)
publish_result = rescale_task(_publish, PUBLISH_TASK, "Publish", multiple_outputs=True, links=_REPORT_LINKS)
announce = rescale_task(
    _announce, ANNOUNCE_TASK, "Announce the result", inlets=[RESCALED_SAVEPOINT], outlets=[RESCALED_SAVEPOINT]
)
