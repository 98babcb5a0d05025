"""The tasks of a rescale. Each can be killed at any point and run again: what it leaves depends on the plan alone.

Most work in the worker, on metadata; those that move or read state only wait for a step that runs elsewhere.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from airflow.sdk import Asset, TriggerRule

from rescale.errors import RequestError, UnsupportedError
from rescale.insight.cluster import cluster_of_environment
from rescale.orchestration.claims import live_run, refuse_what_a_live_run_claims, this_run
from rescale.orchestration.filled_form import (
    asked,
    lines_of,
    proof_of,
    refuse_silent_copy,
    refuse_unasked_drops,
    refuse_unknown_fields,
    request_of,
    understood,
)
from rescale.orchestration.question import END_OF_QUESTION, question_markdown
from rescale.orchestration.reports.report_link import REPORT, ReportLink, ReportPlace
from rescale.orchestration.steps.earlier_tasks import (
    APPROVED,
    ASK,
    PLAN,
    PUBLISH,
    Summary,
    Told,
    the_plan_to_carry_out,
    told_by,
)
from rescale.orchestration.steps.lineage import planned_lineage, published_lineage
from rescale.orchestration.steps.rescale_task import rescale_task, skip_task
from rescale.orchestration.steps.step_task import step_task
from rescale.orchestration.summaries import certificate_summary, plan_summary, snapshot_summary
from rescale.orchestration.telling import tell
from rescale.orchestration.words import in_words_of_the_form
from rescale.planning.asked.operator_shapes import by_operator
from rescale.planning.prepare import prepare
from rescale.planning.values.plan import Plan
from rescale.planning.values.proof import how_proven
from rescale.process import Step
from rescale.report.pages.inspection import inspection, inspection_text
from rescale.report.pages.outcome import outcome
from rescale.report.pages.plan_markdown import plan_markdown
from rescale.report.pages.planned import plan_document, plan_text
from rescale.report.stored import put_report
from rescale.report.units import counted, human_bytes
from rescale.snapshot.kafka.audit import stopped_consumers
from rescale.snapshot.kafka.offsets import kafka_offsets
from rescale.snapshot.model import Snapshot
from rescale.snapshot.opening import open_snapshot
from rescale.storage.locations import normalise
from rescale.target.certificate import read_certificate
from rescale.target.claim import claim
from rescale.target.documents import load_plan, read_document, store_plan_page
from rescale.target.places import places_of
from rescale.target.publication import is_published, publish, was_published
from rescale.target.removal import discard
from rescale.target.runs import note_run
from rescale.target.states import claimed_by

RESCALED_SAVEPOINT = Asset(name="rescaled_savepoint", uri="x-rescale://published", group="rescale")
"""Gets an event with every publication; its extra says where the result and its certificate lie, and its shape.

`x-` is for schemes that no provider knows: for another one Airflow imports every provider that brings schemes.
"""

ANNOUNCE = "announce"

_MOST_EVENTS = 1000
"""So far back an asset is searched for the event of a result."""

_UNLESS_REJECTED = TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS
"""Where nobody is asked the approval is skipped, which would skip all that comes after it."""

log = logging.getLogger(__name__)

Known = Mapping[str, Told] | None
"""What earlier tasks find out: source and target, by these names, if the form does not name them itself."""


def _inspect(known: Known, params: Any = None, dag: Any = None, ti: Any = None) -> Summary:
    """Reads metadata and headers of the source: what is in it, and is it whole?"""
    refuse_unknown_fields(params, dag.params)
    refuse_silent_copy(params)
    refuse_unasked_drops(params)
    request = request_of(params, found_out(known, ti))
    tell(understood(request))
    snapshot = open_snapshot(request.source, request.allow_prefixes, request.uids, request.surgery.drops)
    seen = inspection(snapshot, kafka_offsets(snapshot))
    tell(inspection_text(seen))
    _refuse_stopped_consumers(snapshot, request.surgery.drops, lines_of(params, "without_offsets"))
    return snapshot_summary(snapshot, seen)


def _look(params: Any = None) -> Summary:
    """Plans as a run would, shows it, and writes nothing."""
    request = request_of(params)
    plan, snapshot, kafka = prepare(request)
    shown = plan_document(plan, snapshot, kafka, cluster_of_environment(os.environ))
    tell(f"{understood(request)}\n\n{plan_text(shown)}")
    return {name: value for name, value in plan_summary(plan, shown, published=False).items() if name != "plan"}


def _discard(params: Any = None, dag: Any = None, ti: Any = None) -> Summary:
    """Removes what a run left in and beside its target, unless that run goes on or has published."""
    refuse_unknown_fields(params, dag.params)
    target = normalise(params["target"])
    refuse_what_a_live_run_claims(target, ti)
    discarded = discard(target)
    if not discarded.removed:
        skip_task(f"nothing to do: no run has left anything in {target} or beside it")
    log.info("removed %s", counted(len(discarded.removed), "file"))
    if discarded.left:
        log.warning("left %s that are not ours, such as %s", counted(len(discarded.left), "file"), discarded.left[0])
    return {"target": target, "removed": len(discarded.removed), "left": len(discarded.left)}


def _plan(known: Known, params: Any = None, dag_run: Any = None, ti: Any = None) -> Summary:
    """Decides everything, stores the plan beside the target and claims the target for it."""
    request = request_of(params, found_out(known, ti))
    plan, snapshot, kafka = prepare(request)
    shown = plan_document(plan, snapshot, kafka, cluster_of_environment(os.environ))
    tell(f"{understood(request)}\n\n{plan_text(shown)}")
    if not (params["same_shape"] or _changes(plan)):
        _refuse_no_change(plan, known)
    published = is_published(plan)
    if not published:
        if how := how_proven(plan, proof_of(params)):
            tell(how)
        refuse_what_a_live_run_claims(plan.target, ti, plan.digest)
        claim(plan, accept_unconditional=params["accept_unconditional_publish"], by=this_run(dag_run))
        note_run(plan, this_run(dag_run))
        page = f"{question_markdown(shown)}{END_OF_QUESTION}{understood(request)}\n\n{plan_markdown(shown)}"
        store_plan_page(plan, in_words_of_the_form(page))
        log.info("%s", put_report(plan, shown))
    place = ReportPlace(plan.target, plan.digest, params["connection"])
    ti.xcom_push(REPORT, msgspec.to_builtins(place))
    ti.task.lineage = planned_lineage(plan)
    return {**plan_summary(plan, shown, published=published), "source": plan.source, "asked": asked(request)}


def found_out(known: Known, ti: Any) -> dict[str, Any]:
    """The places that earlier tasks of the run have told."""
    return {place: told.by(ti) for place, told in (known or {}).items()}


def _changes(plan: Plan) -> bool:
    """Whether the plan does more than copy."""
    return bool(plan.surgery) or any(
        (operator.parallelism, operator.max_parallelism) != (operator.new_parallelism, operator.new_max_parallelism)
        or operator.rekeyings
        for operator in plan.operators
    )


def _refuse_no_change(plan: Plan, known: Known) -> None:
    """Where somebody has filled in a form it was wrong; where the source was found out there is nothing to do."""
    what = f"the state in {plan.source} has the shape already that is asked for"
    if known is not None:
        skip_task(f"nothing to do: {what}")
    raise RequestError(
        what, advice='ask for another one; if you want a copy as it is, say "Same shape: a self-contained copy"'
    )


def _certified(plan: Plan, certificate: Summary) -> Summary:
    log.info("%s", put_report(plan))
    return certificate_summary(certificate, places_of(plan).certificate)


def _publish(planned: Summary | None, params: Any = None, ti: Any = None) -> Summary:
    """Puts the certified metadata into the target, in one write: from then on Flink can restore it."""
    plan = load_plan(the_plan_to_carry_out(planned, params, ti)["plan"])
    published = publish(plan, accept_unconditional=params["accept_unconditional_publish"])
    done = outcome(plan, published)
    log.info("%s", put_report(plan))
    digest = hashlib.sha256(read_document(done["certificate"])).hexdigest()
    certified = read_certificate(plan.target)
    compared = f"{counted(len(certified.operators), 'operator')}, {human_bytes(certified.bytes)} compared"
    log.info("verdict: %s (proof by %s): %s", certified.verdict, certified.proof.value, compared)
    log.info("certificate: %s, SHA-256 %s", done["certificate"], digest)
    log.info("start the job: %s", done["start"])
    ti.task.lineage = published_lineage(plan, certified, digest)
    kept = {key: done[key] for key in ("target", "metadata_sha256", "certificate", "start")}
    return {**kept, "starting": plan.start._asdict(), "certificate_sha256": digest}


def _announce(
    planned: Summary | None,
    params: Any = None,  # noqa: ARG001
    inlet_events: Any = None,
    outlet_events: Any = None,
) -> Summary:
    """Gives the asset an event that says where the result lies, unless it has one of this result."""
    extra = asset_extra(the_published_plan(planned))
    if extra in events_of(inlet_events, RESCALED_SAVEPOINT):
        skip_task("the asset has the event of this result already")
    outlet_events[RESCALED_SAVEPOINT].extra = extra
    return {"asset": RESCALED_SAVEPOINT.name, "uri": extra["uri"]}


def the_published_plan(planned: Summary | None) -> Plan:
    """`RequestError` if its result is not published, as where somebody marked the task as successful that does it."""
    plan = load_plan(told_by(PLAN, planned)["plan"])
    if not was_published(plan):
        raise RequestError(
            f"nothing was published: the task {PUBLISH!r} did not come to its end",
            path=plan.target,
            advice=f"clear the task {PUBLISH!r} and those after it",
        )
    return plan


def asset_extra(plan: Plan) -> dict[str, Any]:
    """What the event of a published result says."""
    return {
        "uri": plan.target,
        "source": plan.source,
        "shape": _shape(plan),
        "certificate": places_of(plan).certificate,
        "certificate_sha256": hashlib.sha256(read_document(places_of(plan).certificate)).hexdigest(),
    }


def events_of(inlet_events: Any, asset: Asset) -> list[dict[str, Any]]:
    """The extras of the newest events of an asset."""
    newest = inlet_events[asset].ascending(False).limit(_MOST_EVENTS)
    return [event.extra for event in newest]


def _rejected(planned: Summary | None, params: Any = None, ti: Any = None) -> Summary:  # noqa: ARG001
    """Removes what was staged for the plan, and fails: a rejection is no success."""
    planned = told_by(PLAN, planned)
    target, digest = planned["target"], planned["digest"]
    words = told_by(ASK, ti.xcom_pull(task_ids=ASK, key=APPROVED))["words"]
    other = live_run(target, ti) if claimed_by(target) == digest else None
    if other is not None:
        raise RequestError(
            "the plan was rejected; another run carries it out",
            path=target,
            found=f"{words}; {other}",
            advice="what was staged is that run's, too, and stays; if it is to go, mark that run as failed",
        )
    removed = discard(target).removed if claimed_by(target) == digest else ()
    raise RequestError(
        "the plan was rejected; nothing was moved",
        path=target,
        found=words,
        advice=f"what was staged is removed ({counted(len(removed), 'file')}): trigger another run",
    )


inspect = rescale_task(_inspect, "inspect", "Inspect the source")
_REPORT = (ReportLink(PLAN),)

plan = rescale_task(_plan, PLAN, "Plan", links=_REPORT)
look = rescale_task(_look, PLAN, "Plan")
discard_left = rescale_task(_discard, "discard", "Discard")
reshuffle = step_task(
    Step.RESHUFFLE,
    "reshuffle_keyed_state",
    "Reshuffle keyed state",
    "Moves keyed state to the subtasks that will own its key groups.",
    trigger_rule=_UNLESS_REJECTED,
)
redistribute = step_task(
    Step.REDISTRIBUTE,
    "redistribute_operator_state",
    "Redistribute operator state",
    "Deals operator state to the new subtasks by its distribution mode.",
    trigger_rule=_UNLESS_REJECTED,
)
validate = step_task(
    Step.VALIDATE,
    "validate",
    "Validate the result",
    "Reads source and result back from storage, compares them, and certifies what is there.",
    _certified,
    words=lambda params: ["--proof", proof_of(params).value],
    links=_REPORT,
)
publish_result = rescale_task(_publish, PUBLISH, "Publish", multiple_outputs=True, links=_REPORT)
announce = rescale_task(
    _announce, ANNOUNCE, "Tell who waits for it", inlets=[RESCALED_SAVEPOINT], outlets=[RESCALED_SAVEPOINT]
)
rejected = rescale_task(_rejected, "rejected", "Plan rejected")


def _refuse_stopped_consumers(snapshot: Snapshot, drops: Sequence[str], allowed: Sequence[str]) -> None:
    """One that is dropped starts without offsets because somebody says so."""
    dropped = by_operator(snapshot.operators, dict.fromkeys(drops, True))
    staying = tuple(one for one in snapshot.operators if one.operator_id not in dropped)
    for finding in stopped_consumers(replace(snapshot, operators=staying)):
        if finding.operator not in allowed:
            raise UnsupportedError(
                finding.sentence,
                path=snapshot.directory,
                operator=finding.operator,
                advice="take another savepoint and then cancel the job, or name the operator among those that may "
                "start without offsets",
            )


def _shape(plan: Plan) -> dict[str, dict[str, int]]:
    """The new shape, by operator."""
    return {
        operator.label: {"parallelism": operator.new_parallelism, "max_parallelism": operator.new_max_parallelism}
        for operator in plan.operators
    }
