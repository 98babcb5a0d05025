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
from simulation.bugs.planting import Bug, Planter, after, function, method

_plan_header, _without, _certificate_of = HeaderPlanner.plan, dropped_states._stream_without, verdict.certificate_of


def _requested(change: Callable[[Sequence[Operator], Surgery], Surgery]) -> Planter:
    """Return a planter that changes which operators and states the user drops."""

    def changed(snapshot: Snapshot, asked_for: SurgeryRequest) -> Surgery:
        return change(snapshot.operators, resolve_surgery(snapshot, asked_for))

    return method(resolution, "resolve_surgery", changed)


def _one_more_state(operators: Sequence[Operator], asked: Surgery) -> Surgery:
    """Drop one more state of the first operator of which some states are dropped."""
    for operator in operators:
        known = {state.name for state in asked.dropped_states if state.operator_id == operator.operator_id}
        others = [name for name in state_names(operator) if name not in known]
        if known and others:
            return replace(asked, dropped_states=(*asked.dropped_states, *states_to_drop(operator, others[0])))
    return asked


def _with_states_of_that_name(operators: Sequence[Operator], asked: Surgery) -> Surgery:
    """Drop the states with a dropped state's name in all operators."""
    names = dict.fromkeys(state.name for state in asked.dropped_states)
    gone = {dropped.operator_id for dropped in asked.dropped}
    staying = [operator for operator in operators if operator.operator_id not in gone]
    return replace(
        asked,
        dropped_states=tuple(lost for operator in staying for name in names for lost in states_to_drop(operator, name)),
    )


def _with_a_neighbour(operators: Sequence[Operator], asked: Surgery) -> Surgery:
    """Also drop the operator behind each dropped one."""
    ids = [operator.operator_id for operator in operators]
    places = [ids.index(dropped.operator_id) + 1 for dropped in asked.dropped]
    touched = {declared.operator_id for declared in (*asked.renamed, *asked.dropped, *asked.dropped_states)}
    others = [
        operator for operator in (operators[i % len(operators)] for i in places) if operator.operator_id not in touched
    ]
    return replace(asked, dropped=(*asked.dropped, *map(as_dropped, others)))


def _last_subtask_only(operator: Operator, names: Any) -> Operator:
    after_it = without_states(operator, names)
    return (
        replace(after_it, element_streams=operator.element_streams[:-1] + after_it.element_streams[-1:])
        if names
        else after_it
    )


def _with_old_header(stream: Any, names: Any) -> Any:
    shortened = _without(stream, names)
    return replace(shortened, header=stream.header, parsed=stream.parsed) if shortened is not None else None


def _without_note(proof: Any) -> Any:
    return replace(proof, left_out={}) if proof is not None else None


def _certificate_without_surgery(*arguments: Any, **named: Any) -> Any:
    return _certificate_of(*arguments, **{**named, "surgery": NO_SURGERY})


BUGS = [
    Bug("drop: dropped states stay", _requested(lambda _, asked: replace(asked, dropped_states=()))),
    Bug("drop: one state of several stays", _requested(lambda _, s: replace(s, dropped_states=s.dropped_states[1:]))),
    Bug("drop: one more state is dropped", _requested(_one_more_state)),
    Bug("drop: states of that name are dropped everywhere", _requested(_with_states_of_that_name)),
    Bug("drop: the next operator is dropped, too", _requested(_with_a_neighbour)),
    Bug("drop: only the last subtask loses its elements", method(surgery, "without_states", _last_subtask_only)),
    Bug("drop: the header of elements stays", method(dropped_states, "_stream_without", _with_old_header)),
    Bug(
        "drop: records of a state stay",
        method(
            HeaderPlanner,
            "plan",
            lambda self, old_holders, timers=(), _=(), **how: _plan_header(self, old_holders, timers, **how),
        ),
    ),
    Bug("drop: the certificate counts nothing", function(record_proof, after(record_proof, _without_note))),
    Bug("drop: the certificate does not name it", function(_certificate_of, _certificate_without_surgery)),
]
