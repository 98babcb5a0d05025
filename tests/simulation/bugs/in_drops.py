"""Bugs in the choice of the operators and states that are dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rescale.execution.compare.validation import verdict
from rescale.execution.compare.validation.record_proof import record_proof
from rescale.planning.request import resolution
from rescale.planning.request.surgery import resolve_surgery
from rescale.planning.request.surgery_request import SurgeryRequest
from rescale.planning.streams.keyed_headers import HeaderPlanner
from rescale.snapshot import dropped_states, surgery
from rescale.snapshot.dropped_states import state_names, states_to_drop, without_states
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.surgery import NO_SURGERY, Surgery, as_dropped
from simulation.bugs.planting import Bug, Planter, attribute_planter, function_planter, with_changed_result

_plan_header, _stream_without, _certificate_of = (
    HeaderPlanner.plan,
    dropped_states._stream_without,
    verdict.certificate_of,
)


def _surgery_planter(change: Callable[[Sequence[Operator], Surgery], Surgery]) -> Planter:
    """Return a planter that changes which operators and states the user drops."""

    def resolve_changed(snapshot: Snapshot, asked_for: SurgeryRequest) -> Surgery:
        return change(snapshot.operators, resolve_surgery(snapshot, asked_for))

    return attribute_planter(resolution, "resolve_surgery", resolve_changed)


def _one_more_state(operators: Sequence[Operator], requested: Surgery) -> Surgery:
    """Drop one more state of the first operator of which some states are dropped."""
    for operator in operators:
        dropped_names = {state.name for state in requested.dropped_states if state.operator_id == operator.operator_id}
        other_names = [name for name in state_names(operator) if name not in dropped_names]
        if dropped_names and other_names:
            return replace(
                requested, dropped_states=(*requested.dropped_states, *states_to_drop(operator, other_names[0]))
            )
    return requested


def _with_states_of_that_name(operators: Sequence[Operator], requested: Surgery) -> Surgery:
    """Drop the states with a dropped state's name in all operators."""
    names = dict.fromkeys(state.name for state in requested.dropped_states)
    dropped_ids = {dropped.operator_id for dropped in requested.dropped}
    kept_operators = [operator for operator in operators if operator.operator_id not in dropped_ids]
    return replace(
        requested,
        dropped_states=tuple(
            dropped_state
            for operator in kept_operators
            for name in names
            for dropped_state in states_to_drop(operator, name)
        ),
    )


def _with_a_neighbour(operators: Sequence[Operator], requested: Surgery) -> Surgery:
    """Also drop the operator behind each dropped one."""
    ids = [operator.operator_id for operator in operators]
    neighbour_indices = [ids.index(dropped.operator_id) + 1 for dropped in requested.dropped]
    requested_ids = {
        declared.operator_id for declared in (*requested.renamed, *requested.dropped, *requested.dropped_states)
    }
    neighbours = [
        operator
        for operator in (operators[i % len(operators)] for i in neighbour_indices)
        if operator.operator_id not in requested_ids
    ]
    return replace(requested, dropped=(*requested.dropped, *map(as_dropped, neighbours)))


def _drop_in_last_subtask_only(operator: Operator, names: Any) -> Operator:
    shortened_operator = without_states(operator, names)
    return (
        replace(
            shortened_operator, element_streams=operator.element_streams[:-1] + shortened_operator.element_streams[-1:]
        )
        if names
        else shortened_operator
    )


def _with_old_header(stream: Any, names: Any) -> Any:
    shortened_stream = _stream_without(stream, names)
    return (
        replace(shortened_stream, header=stream.header, parsed=stream.parsed) if shortened_stream is not None else None
    )


def _without_dropped_counts(proof: Any) -> Any:
    return replace(proof, left_out={}) if proof is not None else None


def _certificate_without_surgery(*arguments: Any, **named: Any) -> Any:
    return _certificate_of(*arguments, **{**named, "surgery": NO_SURGERY})


BUGS = [
    Bug("drop: dropped states stay", _surgery_planter(lambda _, requested: replace(requested, dropped_states=()))),
    Bug(
        "drop: one state of several stays",
        _surgery_planter(lambda _, s: replace(s, dropped_states=s.dropped_states[1:])),
    ),
    Bug("drop: one more state is dropped", _surgery_planter(_one_more_state)),
    Bug("drop: states of that name are dropped everywhere", _surgery_planter(_with_states_of_that_name)),
    Bug("drop: the next operator is dropped, too", _surgery_planter(_with_a_neighbour)),
    Bug(
        "drop: only the last subtask loses its elements",
        attribute_planter(surgery, "without_states", _drop_in_last_subtask_only),
    ),
    Bug("drop: the header of elements stays", attribute_planter(dropped_states, "_stream_without", _with_old_header)),
    Bug(
        "drop: records of a state stay",
        attribute_planter(
            HeaderPlanner,
            "plan",
            lambda self, old_holders, timers=(), _=(), **how: _plan_header(self, old_holders, timers, **how),
        ),
    ),
    Bug(
        "drop: the certificate counts nothing",
        function_planter(record_proof, with_changed_result(record_proof, _without_dropped_counts)),
    ),
    Bug("drop: the certificate does not name it", function_planter(_certificate_of, _certificate_without_surgery)),
]
