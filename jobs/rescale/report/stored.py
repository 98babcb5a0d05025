"""The report of a run, which lies beside its target and is made anew whenever there is more to tell.

Beside the page lies the document of the plan that it is made of, so that later steps need not read the source again,
and so that there is a report when the source is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from rescale.errors import RequestError, SnapshotError, unexpected
from rescale.flink.release_line import ReleaseLine
from rescale.names import printable
from rescale.planning.values.plan import Plan
from rescale.process import STEPS_OF_A_RUN, Step
from rescale.report.html_report import html_report
from rescale.report.pages.inspection import inspection
from rescale.report.pages.planned import plan_document
from rescale.report.report_document import report_document
from rescale.snapshot.kafka.offsets import kafka_offsets
from rescale.snapshot.opening import open_snapshot
from rescale.snapshot.surgery import operated
from rescale.storage.store import open_store
from rescale.target.certificate import read_certificate
from rescale.target.documents import load_plan, read_document, store_report, store_report_data
from rescale.target.places import Places, places_of
from rescale.target.states import State, claimed_by, state_of

_NAMES = {Step.RESHUFFLE: "reshuffle", Step.REDISTRIBUTE: "redistribute", Step.VALIDATE: "validate"}
"""What steps are called in estimates."""


def put_report(plan: Plan, planned: dict[str, Any] | None = None) -> str:
    """Puts the report of a run that has claimed its target, as far as it has come; returns what there is to say of it.

    `planned` is the document of the plan, from whoever has just planned. Nothing fails for want of a report.
    """
    try:
        if claimed_by(plan.target) != plan.digest:  # discarded meanwhile, and nothing of it shall be left
            return f"there is no report: {plan.target} is not this run's any more"
        if planned is not None:
            store_report_data(plan, msgspec.json.encode(planned))
        with _as_it_was_written(plan.target):
            page = html_report(run_document(plan))
        if not _is_there(plan, page):  # what is published is left alone, when the same run is asked for again
            store_report(plan, page)
    except Exception as error:
        return f"the report could not be written: {unexpected(error)}"
    return f"report: {printable(places_of(plan).report)}"


def _is_there(plan: Plan, page: bytes) -> bool:
    uri = places_of(plan).report
    pin = open_store(uri).stat(uri)
    return pin is not None and pin.size == len(page) and read_document(uri) == page


def report_of(
    uri: str,
    allow_prefixes: Sequence[str] = (),
    uids: Sequence[tuple[str, str]] = (),
    line: ReleaseLine | None = None,
) -> bytes:
    """A page about all that `document_of` tells."""
    document = document_of(uri, allow_prefixes, uids, line)
    if document["plan"] is None:
        return html_report(document)
    with _as_it_was_written(uri):
        return html_report(document)


def document_of(
    uri: str,
    allow_prefixes: Sequence[str] = (),
    uids: Sequence[tuple[str, str]] = (),
    line: ReleaseLine | None = None,
) -> dict[str, Any]:
    """All that is known of a snapshot, of a plan's file, or of a target and the run that made it.

    Of a snapshot also what `line` would restore. `RequestError` if documents of a run are damaged, or not ours.
    """
    digest = None if uri.endswith(".json") else claimed_by(uri)
    plan = Places(uri, digest).plan if digest is not None else uri
    if plan.endswith(".json"):
        if line is not None:
            raise RequestError(
                f"what Flink {line} would restore is told of a snapshot, and this is a plan, or the target of a run",
                path=uri,
                advice="with --for-flink inspect tells it of a published target, too",
            )
        with _as_it_was_written(uri):
            return run_document(load_plan(plan))
    snapshot = open_snapshot(uri, allow_prefixes, uids)
    return report_document(snapshot=_as_json(inspection(snapshot, kafka_offsets(snapshot), line)))


@contextmanager
def _as_it_was_written(uri: str) -> Iterator[None]:
    """In the block, whatever does not stand as it should in a document that can be read as one of ours is its fault."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise RequestError(
            "no report can be made of this: it was damaged, or written by another version of Rescale",
            path=uri,
            found=f"{type(error).__name__}: {error}",
            advice="plan again, and report on that; or see who else writes here",
        ) from error


def run_document(plan: Plan) -> dict[str, Any]:
    """Of a plan, and of what has come of it so far."""
    state = state_of(plan.target, plan.digest)
    results = dict(_results(plan)) if state in _OURS else {}
    failed = [result for result in results.values() if result["status"] != "done"]
    return report_document(
        plan=_stored_document(plan) or _document_anew(plan),
        certificate=read_certificate(plan.target).document() if state in _CERTIFIED else None,
        published=state in _PUBLISHED,
        error=failed[0] if failed else None,
        took={name: result["seconds"] for name, result in results.items() if "seconds" in result},
    )


_PUBLISHED = (State.PUBLISHED, State.GONE, State.EMPTIED)

_CERTIFIED = (State.CERTIFIED, State.PUBLISHING, *_PUBLISHED)

_OURS = (State.CLAIMED, State.MOVED, *_CERTIFIED)
"""Where what lies beside the target is this plan's."""


def _results(plan: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    """The result documents of the steps that have ended, by what these are called."""
    for step in STEPS_OF_A_RUN:
        if (result := _read(places_of(plan).result(step))) is not None:
            yield _NAMES[step], result


def _stored_document(plan: Plan) -> dict[str, Any] | None:
    document = _read(places_of(plan).report_data)
    return document if document is not None and document.get("plan") == plan.digest else None


def _document_anew(plan: Plan) -> dict[str, Any]:
    """From the source."""
    labels = [(operator.operator_id, operator.label) for operator in plan.operators]
    snapshot = open_snapshot(plan.source, plan.allow_prefixes, labels, plan.surgery.dropped_ids)
    if snapshot.metadata_sha256 != plan.metadata_sha256:
        raise SnapshotError(
            "the source is another snapshot than the one that was planned with",
            path=snapshot.metadata_uri,
            expected=f"SHA-256 {plan.metadata_sha256}",
            found=snapshot.metadata_sha256,
            advice="plan again",
        )
    after = operated(snapshot, plan.surgery)
    return _as_json(plan_document(plan, after, kafka_offsets(after)))


def _read(uri: str) -> dict[str, Any] | None:
    """A document of ours; None if it is not there, `RequestError` if it is not one."""
    if open_store(uri).stat(uri) is None:
        return None
    try:
        document = msgspec.json.decode(read_document(uri))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise RequestError("this is not a document of ours", path=uri, advice="see who else writes here")
    return document


def _as_json(document: dict[str, Any]) -> dict[str, Any]:
    """With lists for tuples, as it is read back."""
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return decoded
