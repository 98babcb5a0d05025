"""The work of the tasks in `savepoint_tasks`, on snapshots and plans.

Only running tasks import this module, because it imports most of this package.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from airflow.sdk import Asset

from rescale.airflow.assets import RESCALED_SAVEPOINT
from rescale.airflow.claims import identity_of_run, refuse_active_claim, refuse_pending_approval
from rescale.airflow.forms.filled_form import (
    check_changes,
    describe_request,
    lines_of,
    proof_of,
    refuse_unknown_fields,
    request_of,
    request_sentence,
)
from rescale.airflow.forms.form_advice import reword_for_form
from rescale.airflow.question import END_OF_QUESTION, question_markdown
from rescale.airflow.rejection import unpublished_clause
from rescale.airflow.reports.report_link import REPORT_KEY, ReportPage, ReportPlace
from rescale.airflow.steps.earlier_tasks import PLAN_TASK, PUBLISH_TASK, Summary, required_output
from rescale.airflow.steps.lineage import planned_lineage, published_lineage
from rescale.airflow.steps.required_approval import plan_to_execute
from rescale.airflow.steps.rescale_task import skip_task
from rescale.airflow.summaries import as_output, certificate_summary, plan_summary, snapshot_summary
from rescale.airflow.task_log import log_text
from rescale.insight.cluster import cluster_of_environment
from rescale.plan.plan import Plan
from rescale.plan.proof_scope import proof_sentence
from rescale.planning.prepare import prepare
from rescale.planning.request.operator_shapes import by_operator
from rescale.report.documents import ReportDocument
from rescale.report.pages.inspection import inspection, inspection_page
from rescale.report.pages.outcome import outcome
from rescale.report.pages.plan_markdown import plan_markdown
from rescale.report.pages.planned import plan_document, plan_page
from rescale.report.renderers.text import render_text
from rescale.report.report_page import html_report
from rescale.report.stored import put_report
from rescale.runstate.certificate import Certificate, read_certificate
from rescale.runstate.claim import claim, refuse_unavailable_target, source_of_run
from rescale.runstate.documents import document_sha256, load_plan, put_document
from rescale.runstate.follower.rounds import refuse_followed_target
from rescale.runstate.places import places_of
from rescale.runstate.publication import is_published, publish, was_published
from rescale.runstate.removal import discard
from rescale.runstate.runs import note_run
from rescale.snapshot.kafka.audit import stopped_consumers
from rescale.snapshot.kafka.offsets import kafka_offsets
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.locations import normalise
from rescale.text.errors import RequestError, UnsupportedError
from rescale.text.units import counted, human_bytes

ALREADY_ANNOUNCED = "the asset already has an event of this result"

_MOST_EVENTS = 1000
"""Number of an asset's newest events that are searched for the event of a result."""

log = logging.getLogger(__name__)


def inspect_source(params: Mapping[str, Any], form: Mapping[str, Any], known_places: Mapping[str, Any]) -> Summary:
    """Inspect the source, and return its summary. Raises an error for a wrong form, or an incomplete source.

    `form` has the fields that `params` may have. `known_places` has source and target if earlier tasks have determined
    them.
    """
    refuse_unknown_fields(params, form)
    check_changes(params)
    request = request_of(params, known_places)
    log_text(request_sentence(request))
    snapshot = open_snapshot(request.source, request.allow_prefixes, request.uids, request.surgery.drops, request.moves)
    document = inspection(snapshot, kafka_offsets(snapshot))
    log_text(render_text(inspection_page(document)))
    _refuse_stopped_consumers(snapshot, request.surgery.drops, lines_of(params, "without_offsets"))
    return as_output(snapshot_summary(snapshot, document))


def show_plan(params: Mapping[str, Any], ti: Any) -> Summary:
    """Show the plan that a run would make, even if a run would refuse it; write nothing to storage."""
    request = request_of(params)
    plan, snapshot, source_offsets = prepare(request)
    document, refusal = plan_document(plan, snapshot, source_offsets, cluster_of_environment(os.environ)), None
    try:
        _refuse_run(plan, params, ti)
    except RequestError as error:
        reword_for_form(error)
        document, refusal = msgspec.structs.replace(document, start=None), error
    log_text(f"{request_sentence(request)}\n\n{render_text(plan_page(document))}")
    if refusal is not None:
        log.warning("a run would refuse this plan: %s", refusal)
    page = html_report(ReportDocument(plan=document, error=None if refusal is None else refusal.document()))
    ti.xcom_push(REPORT_KEY, msgspec.to_builtins(ReportPage.compress(page)))
    plan_output = as_output(plan_summary(plan, document, is_published=is_published(plan)))
    summary = {name: value for name, value in plan_output.items() if name != "plan"}
    return {**summary, "refused": None if refusal is None else refusal.what}


def discard_unpublished(target: str, ti: Any) -> Summary:
    """Remove the files that a run left in and beside its target, unless the run is still running or has published.

    The summary has the target, and the numbers of files `removed` and `left` (files of other programs).
    """
    target = normalise(target)
    refuse_active_claim(target, ti)
    removal = discard(target)
    log.info("removed %s", counted(len(removal.removed), "file"))
    if removal.left:
        log.warning(
            "kept %s that Rescale did not write, such as %s",
            counted(len(removal.left), "file"),
            removal.left[0],
        )
    return {"target": target, "removed": len(removal.removed), "left": len(removal.left)}


def make_plan(
    params: Mapping[str, Any], known_places: Mapping[str, Any], dag_run: Any, ti: Any, *, skips_without_work: bool
) -> Summary:
    """Make the plan, store it beside the target, claim the target for it, and return its summary.

    Raises `RequestError` for a plan that changes nothing; with `skips_without_work`, skips the task instead.
    """
    request = request_of(params, known_places)
    request = replace(request, source=source_of_run(request.source, request.target, identity_of_run(dag_run)))
    plan, snapshot, source_offsets = prepare(request)
    document = plan_document(plan, snapshot, source_offsets, cluster_of_environment(os.environ))
    if skips_without_work and not _has_work(plan, params):
        skip_task(f"nothing to do: {_no_change_clause(plan)}")
    _refuse_run(plan, params, ti)
    is_already_published = is_published(plan)
    proof_note = None if is_already_published else proof_sentence(plan, proof_of(params))
    if not is_already_published:
        claim(plan, accept_unconditional=params["accept_unconditional_publish"], run_identity=identity_of_run(dag_run))
        note_run(plan, identity_of_run(dag_run))
    log_text(f"{request_sentence(request)}\n\n{render_text(plan_page(document))}")
    if not is_already_published:
        if proof_note is not None:
            log_text(proof_note)
        page = f"{question_markdown(document)}{END_OF_QUESTION}{request_sentence(request)}\n\n{plan_markdown(document)}"
        put_document(places_of(plan).plan_page, page.encode())
        log.info("%s", put_report(plan, document))
    place = ReportPlace(plan.target, plan.digest, params["connection"])
    ti.xcom_push(REPORT_KEY, msgspec.to_builtins(place))
    ti.task.lineage = planned_lineage(plan)
    summary = as_output(plan_summary(plan, document, is_published=is_already_published))
    return {**summary, "source": plan.source, "asked": describe_request(request)}


def _no_change_clause(plan: Plan) -> str:
    return f"the state in {plan.source} already has the requested shape"


def _has_work(plan: Plan, params: Mapping[str, Any]) -> bool:
    """Return whether the plan changes state, shapes or key groups of operators, or the form asks for a copy."""
    changes_operators = any(operator.is_changed or operator.rekeyings for operator in plan.operators)
    return params["same_shape"] or bool(plan.surgery) or changes_operators


def _refuse_run(plan: Plan, params: Mapping[str, Any], ti: Any) -> None:
    """Raise `RequestError` if a run would not carry out the plan. Writes nothing."""
    if not _has_work(plan, params):
        raise RequestError(
            _no_change_clause(plan),
            advice='choose another shape; for an unchanged copy, switch "Same shape: a self-contained copy" on',
        )
    if not is_published(plan):
        refuse_active_claim(plan.target, ti, plan.digest)
        refuse_pending_approval(plan, ti)
        refuse_unavailable_target(plan)
        refuse_followed_target(plan.target)


def report_certificate(plan: Plan, certificate: Certificate) -> Summary:
    """Put the report beside the target, and return the summary of the certificate."""
    log.info("%s", put_report(plan))
    return as_output(certificate_summary(certificate, places_of(plan).certificate))


def publish_result(plan_output: Summary | None, params: Mapping[str, Any], ti: Any) -> Summary:
    """Put the certified metadata into the target, and return the summary of the published result."""
    plan = plan_to_execute(plan_output, params)
    publication = publish(plan, accept_unconditional=params["accept_unconditional_publish"])
    document = outcome(plan, publication)
    log.info("%s", put_report(plan))
    digest = document_sha256(document.certificate)
    certificate = read_certificate(plan.target)
    compared_text = f"{counted(len(certificate.operators), 'operator')}, {human_bytes(certificate.bytes)} compared"
    log.info("verdict: %s (proof by %s): %s", certificate.verdict, certificate.proof.value, compared_text)
    log.info("certificate: %s, SHA-256 %s", document.certificate, digest)
    log.info("start the job: %s", document.start)
    ti.task.lineage = published_lineage(plan, certificate, digest)
    return {
        "target": document.target,
        "metadata_sha256": document.metadata_sha256,
        "certificate": document.certificate,
        "start": document.start,
        "starting": plan.start._asdict(),
        "certificate_sha256": digest,
    }


def announce_result(plan_output: Summary | None, inlet_events: Any, outlet_events: Any) -> Summary:
    """Add an event with the URI of the result to the asset; skip the task if the asset already has this event."""
    plan = published_plan(plan_output)
    if not add_event(plan, RESCALED_SAVEPOINT, inlet_events, outlet_events):
        skip_task(ALREADY_ANNOUNCED)
    return {"asset": RESCALED_SAVEPOINT.name, "uri": plan.target}


def published_plan(plan_output: Summary | None) -> Plan:
    """Return the plan of the task `plan`. Raises `RequestError` if its result is not published.

    Although the task `publish` is green, there may be no result: a user can mark the task as successful.
    """
    plan = load_plan(required_output(PLAN_TASK, plan_output)["plan"])
    if not was_published(plan):
        raise RequestError(
            f"{unpublished_clause(plan.target, plan.digest)}: the task {PUBLISH_TASK!r} did not finish",
            path=plan.target,
            advice=f"clear the task {PUBLISH_TASK!r} and those after it",
        )
    return plan


def add_event(plan: Plan, asset: Asset, inlet_events: Any, outlet_events: Any) -> bool:
    """Add the event of a published result to an asset; return False if the asset has this event already."""
    new_shapes = {
        operator.label: {"parallelism": operator.new_parallelism, "max_parallelism": operator.new_max_parallelism}
        for operator in plan.operators
    }
    extra = {
        "uri": plan.target,
        "source": plan.source,
        "shape": new_shapes,
        "certificate": places_of(plan).certificate,
        "certificate_sha256": document_sha256(places_of(plan).certificate),
    }
    events = inlet_events[asset]
    # In Airflow 3.1, this is a list of all events.
    newest_events = events if isinstance(events, list) else events.ascending(False).limit(_MOST_EVENTS)
    if any(event.extra == extra for event in newest_events):
        return False
    outlet_events[asset].extra = extra
    return True


def _refuse_stopped_consumers(snapshot: Snapshot, drops: Sequence[str], allowed_labels: Sequence[str]) -> None:
    """Raise `UnsupportedError` for Kafka consumers without offsets, unless they are dropped or allowed by the form."""
    dropped_ids = by_operator(snapshot.operators, dict.fromkeys(drops, True))
    kept_operators = tuple(operator for operator in snapshot.operators if operator.operator_id not in dropped_ids)
    for finding in stopped_consumers(replace(snapshot, operators=kept_operators)):
        if finding.operator not in allowed_labels:
            raise UnsupportedError(
                finding.sentence,
                path=snapshot.directory,
                operator=finding.operator,
                advice="take another savepoint without stopping the job, and cancel the job afterwards; or name the "
                'operator under "May start without their Kafka offsets"',
            )
