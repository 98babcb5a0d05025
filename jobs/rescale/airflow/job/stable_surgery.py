"""The part of a request's surgery for which a checkpoint is as good as a later savepoint of the same job.

Both have the same operators. But in between, the job may discover Kafka partitions, and operators may register states
that they did not need before. A canonical savepoint also holds as ordinary state what a checkpoint holds as raw keyed
state (timers) or as unchanged states of a changelog.
"""

from __future__ import annotations

from collections.abc import Sequence

from rescale.flink.metadata.handles import ChangelogHandle
from rescale.planning.request.operator_shapes import by_operator
from rescale.planning.request.surgery import states_meant
from rescale.planning.request.surgery_request import SurgeryRequest
from rescale.snapshot.model import Operator


def stable_surgery(operators: Sequence[Operator], surgery: SurgeryRequest) -> SurgeryRequest:
    """Return the surgery without Kafka partitions, and without states of operators that may register more states.

    `operators` are those of the checkpoint. Raises `RequestError` for an operator that is not among them.
    """
    by_operator(operators, surgery.kafka.sources)
    for name in {row.operator for row in surgery.kafka.offsets}:
        by_operator(operators, {name: True})
    by_id = {operator.entry.operator_id: operator for operator in operators}
    state_drops = tuple(
        drop for drop in surgery.state_drops if all(_is_settled(operator) for operator, _ in states_meant(by_id, drop))
    )
    return SurgeryRequest(surgery.kafka.with_renames(surgery.renames), surgery.drops, state_drops)


def is_logged(operator: Operator) -> bool:
    """Return whether the operator's keyed state is in a changelog, with or without changes."""
    states = [subtask.state for subtask in operator.entry.subtasks if subtask.state is not None]
    return any(isinstance(state.managed_keyed, ChangelogHandle) for state in states)


def _is_settled(operator: Operator) -> bool:
    """Return whether all subtasks of the operator list the same, visible states, so that none was registered late.

    An operator without keyed state may not have registered it yet: Flink writes no handle then.
    """
    keyed = [stream.parsed for stream in operator.managed_keyed]
    elements = [stream.parsed for stream in operator.operator]
    if operator.raw_keyed or operator.other_keyed or is_logged(operator) or None in keyed or None in elements:
        return False
    keyed_names = [frozenset(state.name for state in header.states) for header in keyed if header is not None]
    element_names = [frozenset(state.name for state in stream.states) for stream in operator.operator]
    subtasks = operator.entry.parallelism
    return bool(keyed_names) and all(
        len(set(names)) == 1 and len(names) == subtasks for names in (keyed_names, element_names) if names
    )
