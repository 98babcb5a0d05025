"""Steps that move or compare state: each takes a plan, or the URIs of two snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from rescale.execution.compare.validation.change_proof import continued_operator_indices, prove_changes
from rescale.execution.compare.validation.coverage import (
    check_candidate,
    check_certified,
    check_planned,
    is_compared_by_record,
)
from rescale.execution.compare.validation.declared_differences import check_declared
from rescale.execution.compare.validation.declared_offsets import check_offsets
from rescale.execution.compare.validation.directories import is_comparable_by_files
from rescale.execution.compare.validation.validation import (
    SnapshotPair,
    compare_snapshots,
    open_result,
    validate_result,
)
from rescale.execution.compare.validation.verdict import certificate_of
from rescale.execution.rekeying.rekeying_run import rekey_streams
from rescale.execution.tasks.protocol import Tasks
from rescale.execution.writers.canonical.converted import convert_databases
from rescale.execution.writers.planned_streams import write_planned_streams
from rescale.execution.writers.rocksdb.compacting import compact_databases
from rescale.flink.keys.key_function import is_function_name
from rescale.flink.keys.pojo_formulas import KNOWN_HASH
from rescale.flink.slot import KEYED_SLOTS, OPERATOR_SLOTS, Slot
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof, refuse_impossible_proof
from rescale.plan.proof_scope import proof_sentence
from rescale.planning.request.key_hashes import choose_key_hashes
from rescale.planning.request.operator_shapes import Shape, by_operator
from rescale.planning.request.request import parse_key_hashes
from rescale.planning.request.surgery import resolve_surgery, values_after
from rescale.planning.request.surgery_request import NO_SURGERY_REQUEST, SurgeryRequest
from rescale.report.step_results import MovedStreams
from rescale.runstate.candidate import put_candidate
from rescale.runstate.certificate import Certificate, certificate_beside, write_certificate
from rescale.runstate.certified_files import check_files
from rescale.runstate.pinned_snapshots import open_pinned
from rescale.runstate.places import places_of
from rescale.runstate.preparation import remove_unused_files
from rescale.runstate.states import KEYED, OPERATOR
from rescale.runstate.written_handles import WrittenHandles, begin_moving, write_handles
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.model import Snapshot
from rescale.snapshot.moves import Move
from rescale.snapshot.reading.opening import open_snapshot
from rescale.snapshot.surgery import Surgery, apply_surgery
from rescale.storage.locations import is_s3, join, name
from rescale.storage.rereads import EITHER_SIDE, read_again_on_failure
from rescale.storage.store import exists, open_store
from rescale.text.advice import Advice, mention
from rescale.text.errors import IntegrityError, RequestError, SnapshotError, UnsupportedError

P = ParamSpec("P")
T = TypeVar("T")


def _tells_if_published(step: Callable[Concatenate[Plan, P], T]) -> Callable[Concatenate[Plan, P], T]:
    """Let an `IntegrityError` of a step say that nothing was published, or that the result was published before."""

    @wraps(step)
    def with_publication_in_errors(plan: Plan, /, *arguments: P.args, **options: P.kwargs) -> T:
        try:
            return step(plan, *arguments, **options)
        except IntegrityError as error:
            if not exists(places_of(plan).metadata):
                error.what += "; nothing was published"
                raise
            error.what += "; the result was published before"
            raise error.located(advice="start no job from it: rescale the source again, to another target") from None

    return with_publication_in_errors


def reshuffle_keyed_state(plan: Plan, tasks: Tasks) -> MovedStreams:
    """Move managed and raw keyed state to the subtasks that own its key groups."""
    try:
        return _move_state(plan, KEYED, KEYED_SLOTS, tasks, "reshuffle keyed state")
    except (SnapshotError, IntegrityError) as error:
        if plan.serializers:
            rows_text = " and ".join(f"{row.snapshot} in {row.distribution}" for row in plan.serializers)
            error.located(advice=f"if the snapshot is not damaged, correct the row for {rows_text}")
        raise


def redistribute_operator_state(plan: Plan, tasks: Tasks) -> MovedStreams:
    """Deal managed and raw operator state to subtasks by distribution mode."""
    return _move_state(plan, OPERATOR, OPERATOR_SLOTS, tasks, "redistribute operator state")


@_tells_if_published
def validate_coverage(plan: Plan, tasks: Tasks, proof: Proof = Proof.RECORDS) -> Certificate:
    """Write the candidate, compare it with the source, then write and return the certificate.

    Raises `RequestError` if the requested `proof` is impossible for this plan.
    """
    proof_sentence(plan, proof)
    remove_unused_files(plan)

    def open_pair() -> SnapshotPair:
        original = open_pinned(plan)
        source = apply_surgery(original, plan.surgery)
        candidate = put_candidate(plan, source.metadata)
        result = open_result(candidate.uri, plan.target, [file.uri for file in plan.files[1:]] if plan.refers else ())
        check_candidate(result, candidate.sha256)
        check_planned(result, {o.operator_id: Shape(o.new_parallelism, o.new_max_parallelism) for o in plan.operators})
        check_declared(original, result, plan.surgery)
        check_offsets(original, result, plan.surgery)
        return compare_snapshots(source, result, plan.key_hashes, proof, proven_by_changes, plan.base_files_referred_to)

    proven_by_changes = continued_operator_indices(plan) if proof is Proof.CHANGES else ()
    pair = read_again_on_failure(open_pair, EITHER_SIDE)
    proofs = validate_result(pair, tasks)
    if proven_by_changes:
        change_proofs = prove_changes(plan, pair.source, pair.result, proven_by_changes, tasks)
        proofs = [
            change_proofs[i].added_to(operator_proof) if i in change_proofs else operator_proof
            for i, operator_proof in enumerate(proofs)
        ]
    certificate = certificate_of(pair.source, pair.result, proofs, plan, is_metadata_checked=True, surgery=plan.surgery)
    write_certificate(plan, certificate)
    return certificate


def validate_published(
    source_uri: str,
    target: str,
    tasks: Tasks,
    proof: Proof = Proof.RECORDS,
    *,
    declared_surgery: SurgeryRequest = NO_SURGERY_REQUEST,
    key_hash: Sequence[str] = (),
    allow_prefixes: Sequence[str] = (),
    moves: Sequence[Move] = (),
) -> Certificate:
    """Compare a published result with its source, without a plan; return a certificate without writing it.

    If there is a certificate beside the result, it must belong to the result, and files outside of the target that the
    result refers to must be as certified. If `declared_surgery` is empty, the surgery in that certificate applies.
    Raises `RequestError` if the requested `proof` is impossible.
    """
    if proof is Proof.CHANGES:
        raise RequestError(
            "a published result cannot be proven by its changes",
            expected="the proof records, or files",
            found=proof.value,
            advice=Advice("omit ", mention("proof"), ": then every record is compared"),
        )

    def open_pair() -> tuple[SnapshotPair, Surgery, bool]:
        certificate = certificate_beside(target)
        given_up = declared_surgery.drops or (certificate.surgery.dropped_ids if certificate is not None else ())
        original = open_snapshot(source_uri, allow_prefixes, given_up=given_up, moves=moves)
        result = open_result(join(target, "_metadata"), target, [uri for uri, _ in original.files[1:]])
        surgery = resolve_surgery(original, declared_surgery)
        if not surgery and certificate is not None:
            surgery = certificate.surgery
        if original.missing_files:
            _refuse_incomplete(apply_surgery(original, surgery))
        if certificate is not None:
            check_certified(result, certificate)
            check_files(target, [file for file in certificate.files if file.is_elsewhere], is_published=True)
        check_declared(original, result, surgery)
        check_offsets(original, result, surgery)
        snapshot_after = apply_surgery(original, surgery)
        key_hashes = values_after(surgery, original.operators, parse_key_hashes(key_hash))
        if certificate is not None:
            key_hashes = _certified_hashes(certificate, snapshot_after, key_hashes) | key_hashes
        try:
            pair_of_snapshots = _compare_without_plan(snapshot_after, result, key_hashes, proof)
        except UnsupportedError as error:
            if certificate is not None and (function := _certified_function(certificate, error.operator)) is not None:
                trust_clause = f"the run hashed these keys with {function}: if you trust this function, "
                error.advice = Advice(trust_clause, mention("key-hash", function))
            raise
        return pair_of_snapshots, surgery, certificate is not None

    pair, surgery, is_metadata_checked = read_again_on_failure(open_pair, EITHER_SIDE)
    proofs = validate_result(pair, tasks)
    return certificate_of(
        pair.source, pair.result, proofs, None, is_metadata_checked=is_metadata_checked, surgery=surgery
    )


def _certified_hashes(
    certificate: Certificate, source: Snapshot, requested_hashes: Mapping[str, str]
) -> dict[str, str]:
    """Return the certified hash formulas by operator id, except for operators with one of the `requested_hashes`.

    The comparison hashes every key, so it tests a certified formula. A function is never taken from the certificate:
    anyone who can write beside the result could choose the code that is imported and called here.
    """
    if "" in requested_hashes:
        return {}
    requested_by_id = by_operator(source.operators, requested_hashes)
    operator_ids = {operator.operator_id for operator in source.operators}
    return {
        operator.operator_id: operator.records.key_hash
        for operator in certificate.operators
        if operator.records is not None
        and operator.records.key_hash not in (None, KNOWN_HASH)
        and not is_function_name(operator.records.key_hash)
        and operator.operator_id in operator_ids - requested_by_id.keys()
    }


def _certified_function(certificate: Certificate, label: str | None) -> str | None:
    """Return the function by which the run hashed the keys of an operator; None if it was a formula."""
    for operator in certificate.operators:
        function_name = operator.records.key_hash if operator.records is not None else None
        if operator.label == label and function_name is not None and is_function_name(function_name):
            return function_name
    return None


def _refuse_incomplete(source: Snapshot) -> None:
    """Raise `SnapshotError` if files are missing that `source`, the source after the surgery, needs."""
    if source.missing_files:
        raise SnapshotError(
            "files of the source are missing, so the result cannot be compared with it",
            path=source.missing_files[0],
            expected=f"{len(source.files) - 1} files of state",
            found=f"{len(source.missing_files)} missing",
            advice="compare with a complete copy of the source",
        )


def _compare_without_plan(
    source: Snapshot, result: Snapshot, key_hashes: Mapping[str, str], proof: Proof
) -> SnapshotPair:
    """Compare everything but state; return the snapshots with the checks of state that remain.

    `key_hashes` has the requested and the certified key hashes by operator. The hashes of other operators are chosen by
    the source's serializers and keys (`choose_key_hashes`). Raises `RequestError` if `proof` is impossible.
    """
    operator_pairs = list(zip(source.operators, result.operators, strict=False))
    if proof is Proof.FILES:
        are_in_s3 = is_s3(source.directory) and is_s3(result.directory)
        may_be_copied = are_in_s3 and any(
            old.keyed and not is_compared_by_record(old, new) for old, new in operator_pairs
        )
        refuse_impossible_proof(
            is_possible=may_be_copied or any(is_comparable_by_files(old, new) for old, new in operator_pairs)
        )
    rehashed_operators = [
        (old, new)
        for old, new in operator_pairs
        if is_compared_by_record(old, new) and not (proof is Proof.FILES and is_comparable_by_files(old, new))
    ]
    operators_by_record = [new for _, new in rehashed_operators]
    if any(old.databases for old, _ in rehashed_operators):
        source = with_tables(source)
    max_parallelisms = {operator.operator_id: operator.max_parallelism for operator in operators_by_record}
    return compare_snapshots(source, result, choose_key_hashes(source, max_parallelisms, key_hashes), proof)


@_tells_if_published
def _move_state(plan: Plan, step: str, slots: tuple[Slot, ...], tasks: Tasks, progress_name: str) -> MovedStreams:
    """Move the state in `slots`; write its handles under the name `step`. A second call resumes the first.

    `progress_name` is the name of the step in its progress lines.
    """
    existing_sizes = {name(entry.uri): entry.size for entry in open_store(plan.target).list(plan.target)}
    written_handles = begin_moving(plan, step, existing_sizes)
    if written_handles is None:
        handles = write_planned_streams(plan, slots, tasks, progress_name, existing_sizes)
        if Slot.KEYED in slots:
            handles += compact_databases(plan, tasks)
            handles += convert_databases(plan, tasks, existing_sizes)
        handles += rekey_streams(plan, slots, tasks, existing_sizes)
        written_handles = WrittenHandles(step, plan.digest, tuple(handles))
        write_handles(plan, written_handles)
    return MovedStreams(places_of(plan).written_handles(step), len(written_handles.handles), plan.bytes_of(*slots))
