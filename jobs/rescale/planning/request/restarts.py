"""Resolves the operators whose finished subtasks are to run again.

A finished subtask has no state in a snapshot. If it runs again, it starts without state. That is harmless for list
state, whose elements are independent of each other, and for broadcast state, of which every subtask has a full copy. A
source whose coordinator assigns its splits (`SourceCoordinator`) gets the splits that no subtask has finished, because
the coordinator knows them. Any other source reads its input again, which the user must approve.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rescale.flink.metadata.handles import DistributionMode
from rescale.planning.request.operator_shapes import by_operator
from rescale.snapshot.model import Operator
from rescale.snapshot.surgery import Restarted, as_restarted
from rescale.text.errors import RequestError, UnsupportedError


def restarted_operators(
    operators: Sequence[Operator], names: Sequence[str], dropped_ids: Collection[str]
) -> tuple[Restarted, ...]:
    """Return the operators to restart, which `names` selects; `dropped_ids` are the ids of operators that are left out.

    Raises `RequestError` for an operator that does not exist, has no finished subtask, or is dropped, and
    `UnsupportedError` for one whose state does not allow a restart.
    """
    named_ids = by_operator(operators, dict.fromkeys(names, True))
    chosen_operators = [operator for operator in operators if operator.operator_id in named_ids]
    for operator in chosen_operators:
        _refuse_impossible_restart(operator, dropped_ids)
    return tuple(map(as_restarted, chosen_operators))


def _refuse_impossible_restart(operator: Operator, dropped_ids: Collection[str]) -> None:
    if operator.operator_id in dropped_ids:
        raise RequestError(
            "an operator is dropped, and restarted as well", operator=operator.label, advice="ask for one of the two"
        )
    if not as_restarted(operator).finished:
        raise RequestError(
            "no subtask of the operator has finished, so there is nothing to restart",
            operator=operator.label,
            advice="leave this operator out: its subtasks run anyway",
        )
    if reason := _incomplete_state(operator):
        raise UnsupportedError(
            "finished subtasks of this operator cannot run again: the snapshot lacks their part of the state",
            operator=operator.label,
            expected="no state, or list state whose elements are independent of each other",
            found=reason,
            advice="take a savepoint before subtasks finish, or keep the operator's parallelism",
        )


def _incomplete_state(operator: Operator) -> str | None:
    """Return a phrase for state that would be incomplete if finished subtasks ran again; None if there is none."""
    if operator.managed_keyed or operator.raw_keyed or operator.other_keyed:
        return "keyed state: keys of the finished subtasks would start without state, and the other keys would not"
    union_states = [
        state.name
        for stream in (*operator.element_streams, *operator.raw_element_streams)
        for state in stream.states
        if state.mode is DistributionMode.UNION
    ]
    return f"union list state {union_states[0]!r}, of which every subtask needs all elements" if union_states else None
