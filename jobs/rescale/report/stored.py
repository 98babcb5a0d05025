"""Writes the report of a run: an HTML page beside its target, which each step of the run rewrites.

The document of the plan is stored beside the page, and later steps make the page from it. So they need not read the
source again, and there is a report even if the source is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import msgspec
from msgspec import UNSET

from rescale.flink.release_line import ReleaseLine
from rescale.plan.plan import Plan
from rescale.report.documents import PlanDocument, ReportDocument
from rescale.report.pages.inspection import inspection
from rescale.report.pages.planned import plan_document
from rescale.report.report_page import html_report
from rescale.report.step_results import FailedResult
from rescale.runstate.certificate import read_certificate, refuse_changed_metadata
from rescale.runstate.documents import document_sha256, load_plan, put_document, read_document
from rescale.runstate.follower.rounds import Round
from rescale.runstate.pinned_snapshots import refuse_another_source
from rescale.runstate.places import Places, places_of
from rescale.runstate.states import State, digest_of_claim, state_of
from rescale.runstate.step import STEPS_OF_A_RUN, Step, StepEnd
from rescale.snapshot.kafka.offsets import kafka_offsets
from rescale.snapshot.moves import Move
from rescale.snapshot.reading.discovery import NoSnapshotError
from rescale.snapshot.reading.opening import open_snapshot
from rescale.snapshot.surgery import apply_surgery
from rescale.storage.store import exists, open_store
from rescale.text.errors import DECODE_ERRORS, RequestError, as_rescale_error
from rescale.text.names import printable

T = TypeVar("T")

_STEP_NAMES = {Step.RESHUFFLE: "reshuffle", Step.REDISTRIBUTE: "redistribute", Step.VALIDATE: "validate"}
"""Names of the steps that have an estimated duration."""


def put_report(plan: Plan, planned: PlanDocument | None = None, rounds: Sequence[Round] = ()) -> str:
    """Write the report of a run that has claimed its target; return a sentence on where it is, or why there is none.

    `planned` is the document of the plan, if the caller has just made the plan. `rounds` are the rounds that a follower
    made before the plan. A run never fails because of its report, so this function raises nothing.
    """
    try:
        if digest_of_claim(plan.target) != plan.digest:  # after a discard, this run must not leave a file
            return f"no report was written: {plan.target} no longer belongs to this run"
        if rounds:
            planned = msgspec.structs.replace(planned or _document_from_source(plan), rounds=tuple(rounds))
        if planned is not None:
            put_document(places_of(plan).report_data, msgspec.json.encode(planned))
        with _refusing_damage(plan.target):
            page = html_report(run_document(plan))
        if not _is_stored(plan, page):  # repeating a run of a published plan changes no file
            put_document(places_of(plan).report, page)
    except Exception as error:
        return f"the report could not be written: {as_rescale_error(error)}"
    return f"report: {printable(places_of(plan).report)}"


def _is_stored(plan: Plan, page: bytes) -> bool:
    uri = places_of(plan).report
    pin = open_store(uri).stat(uri)
    return pin is not None and pin.size == len(page) and read_document(uri) == page


def report_of(
    uri: str,
    allow_prefixes: Sequence[str] = (),
    ids_and_labels: Sequence[tuple[str, str]] = (),
    release_line: ReleaseLine | None = None,
    moves: Sequence[Move] = (),
) -> bytes:
    """Return the HTML page of the document that `document_of` returns; arguments and errors are the same."""
    document = document_of(uri, allow_prefixes, ids_and_labels, release_line, moves)
    if document.plan is None:
        return html_report(document)
    with _refusing_damage(uri):
        return html_report(document)


def document_of(
    uri: str,
    allow_prefixes: Sequence[str] = (),
    ids_and_labels: Sequence[tuple[str, str]] = (),
    release_line: ReleaseLine | None = None,
    moves: Sequence[Move] = (),
) -> ReportDocument:
    """Return the document of a report; `uri` is a snapshot, the file of a plan, or the target of a run.

    `allow_prefixes`, `ids_and_labels` and `moves` are for opening a snapshot. With a `release_line` of Flink, the
    document also says what that Flink would restore from the snapshot. Raises `RequestError` if `uri` is none of these,
    if a `release_line` is given without a snapshot, or if documents of a run are damaged or not written by Rescale.
    """
    digest = None if uri.endswith(".json") else digest_of_claim(uri)
    plan_or_snapshot = Places(uri, digest).plan if digest is not None else uri
    if plan_or_snapshot.endswith(".json"):
        if digest is None and not exists(plan_or_snapshot):
            raise _nothing_to_report(uri)
        if release_line is not None:
            raise RequestError(
                f"only a report on a snapshot can say what Flink {release_line} would restore, and this is a plan or a "
                "target",
                path=uri,
                advice="inspect the published target instead",
            )
        with _refusing_damage(uri):
            return run_document(load_plan(plan_or_snapshot))
    try:
        snapshot = open_snapshot(uri, allow_prefixes, ids_and_labels, moves=moves)
    except NoSnapshotError:
        raise _nothing_to_report(uri) from None
    return ReportDocument(snapshot=inspection(snapshot, kafka_offsets(snapshot), release_line))


def _nothing_to_report(uri: str) -> RequestError:
    return RequestError(
        "there is neither a snapshot, nor a plan, nor the target of a run",
        path=uri,
        expected="a savepoint or checkpoint; the file of a plan (<target>.rescale/plan-….json); or a target that a run "
        "has claimed or published",
        advice="name the directory that Flink printed when it took the savepoint, or the target that was named to the "
        "run",
    )


@contextmanager
def _refusing_damage(uri: str) -> Iterator[None]:
    """Turn errors about the content of a document, raised in the block, into `RequestError`."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise _damaged_document_error(uri, error) from error


def _damaged_document_error(uri: str, error: Exception) -> RequestError:
    return RequestError(
        "no report can be made from this document: it is damaged, or another version of Rescale wrote it",
        path=uri,
        found=f"{type(error).__name__}: {error}",
        advice="plan again and report on the new plan; or find out which other program writes here",
    )


def run_document(plan: Plan) -> ReportDocument:
    """Return the document of a report on a plan and on its run, as far as the run has come."""
    state = state_of(plan.target, plan.digest)
    result_by_step = dict(_results(plan)) if state in _OWN_STATES else {}
    failed_results = [result for result in result_by_step.values() if isinstance(result, FailedResult)]
    certificate = read_certificate(plan.target) if state in _CERTIFIED_STATES else None
    if certificate is not None and state is State.PUBLISHED:
        metadata = places_of(plan).metadata
        refuse_changed_metadata(metadata, document_sha256(metadata), certificate)
    return ReportDocument(
        plan=_stored_document(plan) or _document_from_source(plan),
        certificate=None if certificate is None else certificate.document(),
        published=state in _PUBLISHED_STATES,
        error=failed_results[0] if failed_results else None,
        took={name: result.seconds for name, result in result_by_step.items() if result.seconds is not UNSET},
    )


_PUBLISHED_STATES = (State.PUBLISHED, State.GONE, State.EMPTIED)

_CERTIFIED_STATES = (State.CERTIFIED, State.PUBLISHING, *_PUBLISHED_STATES)

_OWN_STATES = (State.CLAIMED, State.MOVED, *_CERTIFIED_STATES)
"""States of a target in which the files beside it belong to this plan."""


def _results(plan: Plan) -> Iterator[tuple[str, StepEnd | FailedResult]]:
    for step in STEPS_OF_A_RUN:
        uri = places_of(plan).result(step)
        if (result := _read_if_exists(uri, StepEnd)) is not None:
            yield (
                _STEP_NAMES[step],
                (_read_if_exists(uri, FailedResult) or result) if result.status == "failed" else result,
            )


def _stored_document(plan: Plan) -> PlanDocument | None:
    document = _read_if_exists(places_of(plan).report_data, PlanDocument)
    return document if document is not None and document.plan == plan.digest else None


def _document_from_source(plan: Plan) -> PlanDocument:
    ids_and_labels = [(operator.operator_id, operator.label) for operator in plan.operators]
    snapshot = open_snapshot(plan.source, plan.allow_prefixes, ids_and_labels, plan.surgery.dropped_ids, plan.moves)
    refuse_another_source(snapshot, plan)
    snapshot_after = apply_surgery(snapshot, plan.surgery)
    return plan_document(plan, snapshot_after, kafka_offsets(snapshot_after))


def _read_if_exists(uri: str, document_type: type[T]) -> T | None:
    """Return a JSON document; None if it does not exist. Raises `RequestError` if it is not a document of this kind."""
    if not exists(uri):
        return None
    try:
        return msgspec.json.decode(read_document(uri), type=document_type)
    except DECODE_ERRORS as error:
        raise _damaged_document_error(uri, error) from error
