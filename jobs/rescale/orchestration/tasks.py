"""The tasks of a rescale. Each can be killed at any point and run again: what it leaves depends on the plan alone.

Most work in the worker, on metadata; those that move or read state only wait for a step that runs elsewhere.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Asset

from rescale.errors import UnsupportedError
from rescale.orchestration.form import lines_of, refuse_unknown_fields, request_of
from rescale.orchestration.rescale_task import Summary, rescale_task
from rescale.orchestration.step_task import step_task
from rescale.orchestration.summaries import certificate_summary, plan_summary, snapshot_summary
from rescale.planning.plan import Plan
from rescale.planning.prepare import prepare
from rescale.process import Step
from rescale.report.inspection import inspection, inspection_text
from rescale.report.outcome import outcome
from rescale.report.plan_markdown import plan_markdown
from rescale.report.planned import plan_summary as detailed_summary
from rescale.report.planned import plan_text
from rescale.report.stored import put_report
from rescale.report.units import counted
from rescale.snapshot.kafka.audit import stopped_consumers
from rescale.snapshot.kafka.offsets import kafka_offsets
from rescale.snapshot.model import Snapshot
from rescale.snapshot.opening import open_snapshot
from rescale.storage.store import open_store
from rescale.target.claim import DOCUMENT_LIMIT, claim, load_plan
from rescale.target.publish import discard, is_published, publish

RESCALED_SAVEPOINT = Asset(name="rescaled_savepoint", uri="rescale://published", group="rescale")
"""Gets an event with every publication; its extra says where the result and its certificate lie, and its shape."""

log = logging.getLogger(__name__)

Known = Mapping[str, Any] | None
"""What an earlier task found out: source and target, if the form does not name them itself."""


def _inspect(known: Known, params: Any = None, dag: Any = None) -> Summary:
    """Reads metadata and headers of the source: what is in it, and is it whole?"""
    refuse_unknown_fields(params, dag.params)
    request = request_of(params, known)
    snapshot = open_snapshot(request.source, request.allow_prefixes, request.uids)
    seen = inspection(snapshot, kafka_offsets(snapshot))
    log.info("%s", inspection_text(seen))
    _refuse_stopped_consumers(snapshot, lines_of(params, "without_offsets"))
    return snapshot_summary(snapshot, seen)


def _plan(known: Known, params: Any = None) -> Summary:
    """Decides everything, stores the plan beside the target and claims the target for it."""
    plan, snapshot, kafka = prepare(request_of(params, known))
    shown = detailed_summary(plan, snapshot, kafka)
    log.info("%s", plan_text(shown))
    published = is_published(plan)
    if not published:
        claim(plan, accept_unconditional=params["accept_unconditional_publish"])
        open_store(plan.target).put(plan.places.plan_page, plan_markdown(shown).encode())
        log.info("%s", put_report(plan, shown))
    return plan_summary(plan, published=published)


def _certified(plan: Plan, certificate: Summary) -> Summary:
    log.info("%s", put_report(plan))
    return certificate_summary(certificate, plan.places.certificate)


def _publish(planned: Summary, params: Any = None, outlet_events: Any = None) -> Summary:
    """Puts the certified metadata into the target, in one write: from then on Flink can restore it."""
    plan = load_plan(planned["plan"])
    published = publish(plan, accept_unconditional=params["accept_unconditional_publish"])
    done = outcome(plan, published)
    log.info("%s", put_report(plan))
    digest = hashlib.sha256(_read(plan.places.certificate)).hexdigest()
    outlet_events[RESCALED_SAVEPOINT].extra = {
        "uri": plan.target,
        "source": plan.source,
        "shape": _shape(plan),
        "certificate": plan.places.certificate,
        "certificate_sha256": digest,
    }
    log.info("start the job: %s", done["start"])
    kept = {key: done[key] for key in ("target", "metadata_sha256", "certificate", "start")}
    return {**kept, "starting": plan.start._asdict(), "certificate_sha256": digest}


def _discard(planned: Summary, params: Any = None) -> Summary:  # noqa: ARG001
    """Removes what a run left whose plan was rejected."""
    removed = discard(load_plan(planned["plan"]).target).removed
    log.info("removed %s", counted(len(removed), "file"))
    return {"removed": len(removed)}


inspect = rescale_task(_inspect, "inspect", "Inspect the source")
plan = rescale_task(_plan, "plan", "Plan")
reshuffle = step_task(
    Step.RESHUFFLE,
    "reshuffle_keyed_state",
    "Reshuffle keyed state",
    "Moves keyed state to the subtasks that will own its key groups.",
)
redistribute = step_task(
    Step.REDISTRIBUTE,
    "redistribute_operator_state",
    "Redistribute operator state",
    "Deals operator state to the new subtasks by its distribution mode.",
)
validate = step_task(
    Step.VALIDATE,
    "validate",
    "Validate the result",
    "Reads source and result back from storage, compares them, and certifies what is there.",
    _certified,
)
publish_result = rescale_task(_publish, "publish", "Publish", multiple_outputs=True, outlets=[RESCALED_SAVEPOINT])
discard_staged = rescale_task(_discard, "discard", "Discard a rejected plan")


def _refuse_stopped_consumers(snapshot: Snapshot, allowed: Sequence[str]) -> None:
    for finding in stopped_consumers(snapshot):
        if finding.operator not in allowed:
            raise UnsupportedError(
                finding.sentence,
                path=snapshot.directory,
                operator=finding.operator,
                advice="take another savepoint and then cancel the job, or name the operator among those that may "
                "start without offsets",
            )


def _read(uri: str) -> bytes:
    return open_store(uri).read_all(uri, DOCUMENT_LIMIT)[0]


def _shape(plan: Plan) -> dict[str, dict[str, int]]:
    """The new shape, by operator."""
    return {
        operator.label: {"parallelism": operator.new_parallelism, "max_parallelism": operator.new_max_parallelism}
        for operator in plan.operators
    }
