"""Checks of a request against the job's latest checkpoint, while the job still runs.

The plan of the savepoint makes the same checks, but only after the job was stopped. The checkpoint is older than the
savepoint, and may have another format. So these checks refuse a request only for operator names, shapes or key hashes
that would be wrong for every later snapshot of the job, too. All other findings are warnings in the log, and the plan
decides.

Keys that fit no known hash are refused, too, although all of them may be gone when the savepoint is taken: the user can
name the hash, or run again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from rescale.airflow.forms.form import field_title
from rescale.airflow.job.job_shape import changes_shape_only
from rescale.airflow.job.latest_checkpoint import UnreadableCheckpoint
from rescale.airflow.task_log import log_text
from rescale.flink_rest.running_job import Job
from rescale.plan.mixed_maxima import mixed_maxima, mixed_maxima_sentence
from rescale.planning.request.finished_operators import refuse_finished
from rescale.planning.request.operator_shapes import Shape, by_operator, matching_states
from rescale.planning.request.request import Request
from rescale.planning.request.resolution import ResolvedRequest, resolve_request
from rescale.planning.request.surgery import resolve_surgery
from rescale.planning.request.surgery_request import SurgeryRequest
from rescale.planning.warnings.chains import generated_id_warnings
from rescale.snapshot.model import Operator, Snapshot
from rescale.text.advice import Advice, command
from rescale.text.errors import RequestError, RescaleError, UnsupportedError

log = logging.getLogger(__name__)


def check_against_checkpoint(
    job: Job,
    request: Request,
    checkpoint: Snapshot | UnreadableCheckpoint,
    *,
    asks_for_approval: bool = True,
    further_check: Callable[[ResolvedRequest], None] = lambda _: None,
) -> bool:
    """Check a request against the job's latest checkpoint.

    Return whether every operator already has the requested shape. If not, `further_check` gets the resolved request for
    further checks. If the checkpoint cannot be read, or no longer matches the job, only log a warning, and return
    False.

    Raises the error that the plan would raise after the job was stopped. `asks_for_approval` tells whether the form or
    the settings ask for an approval. If not, also raises `RequestError` if operators would get different max
    parallelisms, because such a plan needs an approval.
    """
    if isinstance(checkpoint, UnreadableCheckpoint):
        _warn_unchecked(checkpoint.reason, checkpoint.place)
        return False
    if not _matches_job(job, checkpoint):
        _warn_unchecked(
            "the operators or shapes of the job have changed since its latest checkpoint", checkpoint.directory
        )
        return False
    try:
        surgery = checkable_surgery(checkpoint.operators, request.surgery)
        resolved = resolve_request(checkpoint, replace(request, surgery=surgery))
        # A state drop that only the savepoint can check may leave an operator without keys.
        if surgery.state_drops == request.surgery.state_drops:
            _refuse_finished(job, resolved)
            _refuse_key_hashes(resolved)
        if not asks_for_approval:
            _refuse_mixed_maxima(resolved)
    except (RequestError, UnsupportedError) as error:
        raise _checkpoint_error(error, checkpoint) from None
    except RescaleError as error:
        _warn_unchecked(f"the latest checkpoint cannot be read: {error.what}", checkpoint.directory)
        return False
    for warning in generated_id_warnings(resolved.snapshot, resolved.shapes):
        log_text(f"warning: {warning}")
    if surgery == request.surgery or not _warns_of_surgery(checkpoint, request):
        log.info(
            "the request can be carried out, as far as the job's latest checkpoint shows: %s", checkpoint.directory
        )
    if _has_shape(resolved, request):
        return True
    further_check(resolved)
    return False


def _warn_unchecked(reason: str, place: str | None) -> None:
    place_text = f" ({place})" if place is not None else ""
    log.warning("the request cannot be checked before the savepoint is planned: %s%s", reason, place_text)


def _matches_job(job: Job, checkpoint: Snapshot) -> bool:
    """Return whether the first operator of every chain is in the checkpoint, with its current shape."""
    entry_by_id = {operator.entry.operator_id: operator.entry for operator in checkpoint.operators}
    return all(
        (entry := entry_by_id.get(vertex.operator_id)) is not None
        and (entry.parallelism, entry.max_parallelism) == (vertex.parallelism, vertex.max_parallelism)
        for vertex in job.vertices
    )


def _refuse_finished(job: Job, resolved: ResolvedRequest) -> None:
    """Raise the plan's error for partially finished operators, unless all their subtasks may have finished by now.

    Flink does not list the operators after the first one of a chain. Such an operator counts as partially finished only
    if some vertex is partially finished, and no vertex has finished completely.
    """
    is_partial_by_id = {vertex.operator_id: vertex.is_partially_finished for vertex in job.vertices}
    is_unlisted_partial = any(is_partial_by_id.values()) and not any(vertex.is_finished for vertex in job.vertices)
    for operator in resolved.snapshot.operators:
        is_still_partial = operator.is_partially_finished and is_partial_by_id.get(
            operator.entry.operator_id, is_unlisted_partial
        )
        shape, entry = resolved.shapes[operator.entry.operator_id], operator.entry
        if is_still_partial and (
            shape.parallelism != entry.parallelism
            or (operator.keyed_headers and shape.max_parallelism != entry.max_parallelism)
        ):
            refuse_finished(resolved.snapshot.operators, resolved.shapes, resolved.request)


def _refuse_key_hashes(resolved: ResolvedRequest) -> None:
    """Raise the plan's error for operators that get another max parallelism and whose keys fit no known hash."""
    old_maximum_by_id = {
        operator.entry.operator_id: operator.entry.max_parallelism for operator in resolved.snapshot.operators
    }
    new_maximum_by_id = {
        id_: shape.max_parallelism
        for id_, shape in resolved.shapes.items()
        if shape.max_parallelism != old_maximum_by_id[id_]
    }
    if not new_maximum_by_id:
        return
    from rescale.airflow.job.sampled_keys import refuse_unknown_key_hash  # imports numpy, which few requests need
    from rescale.planning.request.key_hashes import choose_key_hashes

    for operator in resolved.snapshot.operators:
        if operator.has_changelog:  # the changes in a changelog might not show how keys are written
            new_maximum_by_id.pop(operator.entry.operator_id, None)
    choose_key_hashes(resolved.snapshot, new_maximum_by_id, resolved.request.key_hash, refuse_unknown_key_hash)


def _refuse_mixed_maxima(resolved: ResolvedRequest) -> None:
    """Raise `RequestError` if operators would get different max parallelisms: such a plan needs an approval."""
    old_and_new_maxima = (
        (operator.max_parallelism, resolved.shapes[operator.operator_id].max_parallelism)
        for operator in resolved.snapshot.operators
    )
    if new_maxima := mixed_maxima(old_and_new_maxima):
        raise RequestError(
            "the run would give operators different max parallelisms without an approval",
            expected=f'"{field_title("require_approval")}"',
            found=mixed_maxima_sentence(new_maxima),
            advice=f'give all operators the same one, or switch "{field_title("require_approval")}" on',
        )


def _checkpoint_error(error: RescaleError, checkpoint: Snapshot) -> RescaleError:
    """Return the error with the checkpoint as its path, and a remark that the job was not stopped."""
    return error.recast(
        type(error),
        f"{error.what} (according to the job's latest checkpoint; the job was not stopped)",
        path=checkpoint.metadata_uri,
        offset=None,
        advice=_advice_for_checkpoint(error.advice),
    )


def _advice_for_checkpoint(advice: str | None) -> str | None:
    """Return the advice with "Plan only" instead of the task that inspects the source, which has not run yet."""
    if not isinstance(advice, Advice):
        return advice
    plan_only = 'a run of "Plan only" with this checkpoint'
    inspect_command = command("inspect")
    return Advice(*(plan_only if part == inspect_command else part for part in advice.parts))


def _warns_of_surgery(checkpoint: Snapshot, request: Request) -> bool:
    """Log a warning and return True if the request names state that only the savepoint may have."""
    try:
        resolve_surgery(checkpoint, request.surgery)
    except RescaleError as error:
        found_text = "" if error.found is None else f" ({error.found})"
        operator_text = "" if error.operator is None else f"{error.operator}: "
        log_text(
            f"warning: {operator_text}{error.what}{found_text}, according to the latest checkpoint "
            f"{checkpoint.directory}; the plan will refuse the savepoint unless that has changed by then"
        )
        return True
    return False


def _has_shape(resolved: ResolvedRequest, request: Request) -> bool:
    """Return whether the request is for a shape only, and every operator has that shape already."""
    operator_entries = (operator.entry for operator in resolved.snapshot.operators)
    is_same_shape = all(
        resolved.shapes[entry.operator_id] == Shape(entry.parallelism, entry.max_parallelism)
        for entry in operator_entries
    )
    return is_same_shape and changes_shape_only(request)


def checkable_surgery(operators: Sequence[Operator], surgery: SurgeryRequest) -> SurgeryRequest:
    """Return the part of the surgery that a checkpoint can check.

    The part lacks all changes of Kafka partitions, because the job may discover partitions before the savepoint. It
    also lacks changes of states if their operator may register more states before the savepoint. Besides, a canonical
    savepoint lists states that a checkpoint does not list. These are timers, which may be raw keyed state in the
    checkpoint, and unchanged states of a changelog. The operators are the same in checkpoint and savepoint, so all
    changes of operators are checked.

    `operators` are those of the checkpoint. Raises `RequestError` for an operator that is not among them.
    """
    by_operator(operators, surgery.kafka.sources)
    for name in {row.operator for row in surgery.kafka.offsets}:
        by_operator(operators, {name: True})
    operator_by_id = {operator.entry.operator_id: operator for operator in operators}
    state_drops = tuple(
        drop
        for drop in surgery.state_drops
        if all(_is_settled(operator) for operator, _ in matching_states(operator_by_id, drop))
    )
    renames = surgery.kafka.merged_renames(surgery.renames)
    age_by_state = {
        state: age
        for state, age in surgery.ages.items()
        if all(_is_settled(operator) for operator, _ in matching_states(operator_by_id, state))
    }
    return SurgeryRequest(renames, surgery.drops, state_drops, restarts=surgery.restarts, ages=age_by_state)


def _is_settled(operator: Operator) -> bool:
    """Return whether all subtasks of the operator list the same states, which shows that no state is registered late.

    Returns False for an operator without handles of keyed state, because it might register keyed state later.
    """
    keyed_headers = [stream.parsed for stream in operator.managed_keyed]
    operator_headers = [stream.parsed for stream in operator.element_streams]
    if (
        operator.raw_keyed
        or operator.other_keyed
        or operator.has_changelog
        or None in keyed_headers
        or None in operator_headers
    ):
        return False
    keyed_name_sets = [frozenset(header.names) for header in keyed_headers if header is not None]
    operator_name_sets = [frozenset(state.name for state in stream.states) for stream in operator.element_streams]
    parallelism = operator.entry.parallelism
    return bool(keyed_name_sets) and all(
        len(set(name_sets)) == 1 and len(name_sets) == parallelism
        for name_sets in (keyed_name_sets, operator_name_sets)
        if name_sets
    )
