"""The steps that move or compare state, each from a plan (or two places) to a summary in JSON values."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rescale.errors import IntegrityError, SnapshotError
from rescale.execution.moving_step import move_streams
from rescale.execution.tasks import Tasks
from rescale.execution.validation.coverage import (
    check_candidate,
    check_certified,
    check_planned,
    is_compared_by_record,
)
from rescale.execution.validation.declared_differences import check_declared
from rescale.execution.validation.declared_offsets import check_offsets
from rescale.execution.validation.directories import may_go_by_files
from rescale.execution.validation.validation import SnapshotPair, compared, open_result, validate_result
from rescale.execution.validation.verdict import certificate_of
from rescale.flink.slot import KEYED_SLOTS, OPERATOR_SLOTS, Slot
from rescale.planning.asked.asked_surgery import asked_surgery, words_after
from rescale.planning.asked.key_hashes import choose_key_hashes
from rescale.planning.asked.operator_shapes import Shape
from rescale.planning.asked.request import parse_key_hashes
from rescale.planning.asked.surgery_words import NO_SURGERY_WORDS, SurgeryWords
from rescale.planning.values.plan import Plan
from rescale.planning.values.proof import Proof, how_proven, refuse_files_in_vain
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.model import Snapshot
from rescale.snapshot.opening import open_candidate, open_snapshot
from rescale.snapshot.surgery import Surgery, operated
from rescale.storage.locations import is_s3, join
from rescale.storage.second_look import EITHER, looked_at_again
from rescale.target.candidate import put_candidate
from rescale.target.certificate import certificate_beside, write_certificate
from rescale.target.certified_files import check_files
from rescale.target.places import places_of
from rescale.target.states import KEYED, OPERATOR


@contextmanager
def _nothing_published() -> Iterator[None]:
    """What does not add up in the block says so; where a published result is looked at, it would not be true."""
    try:
        yield
    except IntegrityError as error:
        error.what += "; nothing was published"
        raise


def reshuffle_keyed_state(plan: Plan, tasks: Tasks) -> dict[str, Any]:
    """Moves managed and raw keyed state to the subtasks that own its key groups."""
    return _moved(plan, KEYED, KEYED_SLOTS, tasks, "reshuffle keyed state")


def redistribute_operator_state(plan: Plan, tasks: Tasks) -> dict[str, Any]:
    """Deals managed and raw operator state by distribution mode."""
    return _moved(plan, OPERATOR, OPERATOR_SLOTS, tasks, "redistribute operator state")


@_nothing_published()
def validate_coverage(plan: Plan, tasks: Tasks, proof: Proof = Proof.RECORDS) -> dict[str, Any]:
    """Puts the candidate, compares it with the source, writes the certificate; returns the certificate.

    `RequestError` if a proof by files is asked for, and there is nothing that it could be about.
    """
    how_proven(plan, proof)

    def opened() -> SnapshotPair:
        as_it_is = open_pinned(plan)
        source = operated(as_it_is, plan.surgery)
        candidate = put_candidate(plan, source.metadata)
        result = open_result(candidate.uri, plan.target, source if plan.refers else None)
        check_candidate(result, candidate.sha256)
        check_planned(result, {o.operator_id: Shape(o.new_parallelism, o.new_max_parallelism) for o in plan.operators})
        check_declared(as_it_is, result, plan.surgery)
        check_offsets(as_it_is, result, plan.surgery)
        return compared(source, result, plan.key_hashes, proof)

    pair = looked_at_again(opened, EITHER)
    proofs = validate_result(pair, tasks)
    certificate = certificate_of(pair.source, pair.result, proofs, plan, bound=True, surgery=plan.surgery)
    write_certificate(plan, certificate)
    return certificate.document()


def validate_published(
    source_uri: str,
    target: str,
    tasks: Tasks,
    proof: Proof = Proof.RECORDS,
    *,
    declared: SurgeryWords = NO_SURGERY_WORDS,
    key_hash: Sequence[str] = (),
    allow_prefixes: Sequence[str] = (),
) -> dict[str, Any]:
    """Compares a published result with its source, without any plan; returns a certificate and writes none.

    A certificate that lies beside the result must be the result's; files that this refers to must be as it says. Where
    nothing is `declared`, what the result has otherwise is what the certificate says. `RequestError` if a proof by
    files is asked for, and there is nothing that it could be about.
    """

    def opened() -> tuple[SnapshotPair, Surgery, bool]:
        certified = certificate_beside(target)
        given_up = declared.drops or (certified.surgery.dropped_ids if certified is not None else ())
        as_it_is = open_snapshot(source_uri, allow_prefixes, given_up=given_up)
        result = open_result(join(target, "_metadata"), target, as_it_is)
        surgery = asked_surgery(as_it_is, declared)
        if not surgery and certified is not None:
            surgery = certified.surgery
        if as_it_is.missing:
            _refuse_incomplete(operated(as_it_is, surgery))
        if certified is not None:
            check_certified(result, certified)
            check_files(target, [file for file in certified.files if file.is_elsewhere], published=True)
        check_declared(as_it_is, result, surgery)
        check_offsets(as_it_is, result, surgery)
        hashes = words_after(surgery, as_it_is.operators, parse_key_hashes(key_hash))
        whole = _compared_without_plan(operated(as_it_is, surgery), result, hashes, proof)
        return whole, surgery, certified is not None

    pair, surgery, bound = looked_at_again(opened, EITHER)
    proofs = validate_result(pair, tasks)
    return certificate_of(pair.source, pair.result, proofs, None, bound=bound, surgery=surgery).document()


def _refuse_incomplete(source: Snapshot) -> None:
    """`SnapshotError` if files are gone that are not only of operators which were left out."""
    if source.missing:
        raise SnapshotError(
            "files of the source are gone, and with them what the result would be compared with",
            path=source.missing[0],
            expected=f"{len(source.files) - 1} files of state",
            found=f"{len(source.missing)} missing",
            advice="name a copy of the source that has them all, if there is one",
        )


def _compared_without_plan(source: Snapshot, result: Snapshot, hashes: Mapping[str, str], proof: Proof) -> SnapshotPair:
    """How keys hash is found out here, from the source."""
    pairs = list(zip(source.operators, result.operators, strict=False))
    if proof is Proof.FILES:
        in_s3 = is_s3(source.directory) and is_s3(result.directory)
        copied = in_s3 and any(old.keyed and not is_compared_by_record(old, new) for old, new in pairs)
        refuse_files_in_vain(possible=copied or any(may_go_by_files(old, new) for old, new in pairs))
    rehashed = [
        (old, new)
        for old, new in pairs
        if is_compared_by_record(old, new) and not (proof is Proof.FILES and may_go_by_files(old, new))
    ]
    by_record = [new for _, new in rehashed]
    if any(old.databases for old, _ in rehashed):
        source = with_tables(source)
    maxima = {operator.operator_id: operator.max_parallelism for operator in by_record}
    return compared(source, result, choose_key_hashes(source, maxima, hashes), proof)


def open_pinned(plan: Plan) -> Snapshot:
    """The source, which must be what was planned with: same metadata, same files."""
    source = open_candidate(plan.files[0].uri, plan.source, plan.allow_prefixes, given_up=plan.surgery.dropped_ids)
    if source.metadata_sha256 != plan.metadata_sha256:
        raise SnapshotError(
            "the source is another snapshot than the one that was planned with",
            path=source.metadata_uri,
            expected=f"SHA-256 {plan.metadata_sha256}",
            found=hashlib.sha256(source.data).hexdigest(),
            advice="plan again",
        )
    planned = {file.uri: file.pin for file in plan.files}
    for uri, pin in source.files:
        if pin.is_of(planned.get(uri)):
            continue
        if uri in source.missing:
            raise SnapshotError(
                "a file of the source is gone since it was planned with",
                path=uri,
                expected=planned.get(uri),
                advice="see that nothing removes it, and start again",
            )
        raise SnapshotError(
            "a file of the source has changed since it was planned with",
            path=uri,
            expected=planned.get(uri),
            found=pin,
            advice="make sure that nothing writes to the source, and plan again",
        )
    return source


@_nothing_published()
def _moved(plan: Plan, name: str, slots: tuple[Slot, ...], tasks: Tasks, step: str) -> dict[str, Any]:
    written = move_streams(plan, name, slots, tasks, step)
    place = places_of(plan).written_handles(name)
    return {"handles": place, "streams": len(written.handles), "bytes": plan.bytes_of(*slots)}
