"""Opens snapshots, and refuses those that have changed: the source of a plan, and the base that a run continues.

A base is an earlier result with its certificate, its plan and its source checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rescale.plan.continuation import ContinuedResult
from rescale.plan.plan import Plan
from rescale.runstate.certificate import read_certificate
from rescale.runstate.certified_files import check_files
from rescale.runstate.documents import load_plan
from rescale.runstate.places import Places
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.opening import open_candidate, open_snapshot
from rescale.storage.locations import normalise, parent
from rescale.text.errors import IntegrityError, RequestError, SnapshotError, UnsupportedError

FULL_RUN = "make a full run, without the base"


@dataclass(frozen=True)
class Base:
    """The earlier result that a run continues, its plan, and the checkpoint from which it was made.

    Both snapshots list their SST files.
    """

    result: ContinuedResult
    plan: Plan
    result_snapshot: Snapshot
    source_snapshot: Snapshot


def open_pinned(plan: Plan, allow_prefixes: Sequence[str] = ()) -> Snapshot:
    """Open the source. Raises `SnapshotError` unless its metadata and files are those of the plan.

    Files of the source may lie outside of its directory below the prefixes that the plan allows, and below
    `allow_prefixes`.
    """
    allowed_prefixes, dropped_ids = (*plan.allow_prefixes, *allow_prefixes), plan.surgery.dropped_ids
    source = open_candidate(plan.files[0].uri, plan.source, allowed_prefixes, given_up=dropped_ids, moves=plan.moves)
    refuse_another_source(source, plan)
    planned_pins = {file.uri: file.pin for file in plan.files}
    for uri, pin in source.files:
        if pin.matches(planned_pins.get(uri)):
            continue
        if uri in source.missing_files:
            raise SnapshotError(
                "a file of the source was deleted after the plan was made",
                path=uri,
                expected=planned_pins.get(uri),
                advice="make sure that nothing deletes files of the source, and start again",
            )
        raise SnapshotError(
            "a file of the source has changed since the plan was made",
            path=uri,
            expected=planned_pins.get(uri),
            found=pin,
            advice="make sure that nothing writes to the source, and plan again",
        )
    return source


def refuse_another_source(snapshot: Snapshot, plan: Plan) -> None:
    """Raise `SnapshotError` if the snapshot is not the one that the plan was made for."""
    if snapshot.metadata_sha256 != plan.metadata_sha256:
        raise SnapshotError(
            "the source is not the snapshot that the plan was made for",
            path=snapshot.metadata_uri,
            expected=f"SHA-256 {plan.metadata_sha256}",
            found=f"SHA-256 {snapshot.metadata_sha256}",
            advice="plan again",
        )


def open_base(uri: str, allow_prefixes: Sequence[str]) -> Base:
    """Open the published result at `uri`, its plan and its source checkpoint.

    Raises `RequestError` if `uri` is not a published result with a certificate, or if files of the source checkpoint
    are gone or have changed. Raises `UnsupportedError` if the result's plan drops, adds or edits state, and
    `IntegrityError` if the result is not the certified one.
    """
    target = normalise(uri)
    certificate = read_certificate(target)
    if certificate.plan is None:
        raise RequestError("the base's certificate names no plan", path=target, advice=FULL_RUN)
    plan = load_plan(Places(target, certificate.plan).plan)
    refuse_surgery(plan, target)
    source_directories = sorted({parent(file.uri) for file in plan.files}) if plan.refers else []
    result = open_snapshot(target, source_directories)
    if result.metadata_sha256 != certificate.candidate_sha256:
        raise IntegrityError(
            "the base is not the result that its certificate names",
            path=result.metadata_uri,
            expected=f"SHA-256 {certificate.candidate_sha256}",
            found=f"SHA-256 {result.metadata_sha256}",
            advice=FULL_RUN,
        )
    check_files(target, certificate.files, is_published=True)
    source = _open_source(plan, target, allow_prefixes)
    continued_result = ContinuedResult(target, plan.digest, result.metadata_sha256, plan.source)
    return Base(continued_result, plan, with_tables(result), with_tables(source))


def refuse_surgery(plan: Plan, base: str) -> None:
    """Raise `UnsupportedError` if the plan of a base, or of a run that continues it, drops, adds or edits state."""
    if plan.surgery:
        raise UnsupportedError(
            "a result can only be continued if neither it nor this run drops, adds or edits state",
            path=base,
            expected="no option that drops, adds or edits state, neither here nor in the base",
            advice=FULL_RUN,
        )


def _open_source(plan: Plan, target: str, allow_prefixes: Sequence[str]) -> Snapshot:
    """Open the source checkpoint of the base.

    Raises `RequestError` unless it has all its files, in the versions that the base's plan names.
    """
    try:
        return open_pinned(plan, allow_prefixes)
    except SnapshotError as error:
        raise RequestError(
            f"the source checkpoint of the base {target} has changed, so it is unknown what the job has changed since",
            path=error.path or plan.source,
            expected="its files as they were when the base was made",
            found=error.what,
            advice=f"{FULL_RUN}; and retain more checkpoints (execution.checkpointing.num-retained), so that the next "
            "run still finds the source of the base",
        ) from None
