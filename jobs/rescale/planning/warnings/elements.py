"""Warnings about list states that leave some of the new subtasks without an element."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rescale.flink.kafka.source import READER_STATE
from rescale.flink.metadata.handles import DistributionMode
from rescale.planning.request.operator_shapes import Shape
from rescale.snapshot.model import Operator
from rescale.text.names import first_of

_MOST_SHOWN = 5
"""Largest number of states that a warning names."""

_EXPIRED_FILES_STATE = "expired-files"
"""List state of `CompactOperator` (a SQL table in files with `auto-compaction`), which reads its first element without
checking that there is one."""

_STATES_THAT_MAY_BE_EMPTY = (READER_STATE, "streaming_committer_raw_states")
"""List states of Flink that may be empty: splits of `SourceOperator`, uncommitted data of `CommitterOperator`."""


def element_warnings(operators: Sequence[Operator], shapes: Mapping[str, Shape]) -> Iterator[str]:
    """Yield a warning for each operator that may fail at start because new subtasks get no element of a list state.

    The same happens if Flink redistributes the elements (`RoundRobinOperatorStateRepartitioner`).
    """
    for operator in operators:
        parallelism = shapes[operator.operator_id].parallelism
        count_by_state = _scarce_states(operator, parallelism)
        if _EXPIRED_FILES_STATE in count_by_state:
            yield (
                f"{operator.label}: the operator that compacts the files of a SQL table (CompactOperator) needs an "
                f"element of {_EXPIRED_FILES_STATE} in every subtask, and there are "
                f"{count_by_state.pop(_EXPIRED_FILES_STATE)} for {parallelism}. The job would fail as soon as "
                f"it starts, also if Flink itself changed the parallelism. Keep the sink at parallelism "
                f"{operator.parallelism}, in the request and in the table (sink.parallelism)"
            )
        if count_by_state:
            state_texts = [f"{name} has {element_count}" for name, element_count in count_by_state.items()]
            yield (
                f"{operator.label}: each subtask had elements of a list state, but there are too few for {parallelism} "
                f"subtasks ({first_of(state_texts, _MOST_SHOWN)}), so some start with none. Some sink writers need "
                "one: they fail as soon as the job starts, also if Flink itself changes the parallelism. Keep such an "
                f"operator at parallelism {min(count_by_state.values())} or less, in the request and in the job"
            )


def _scarce_states(operator: Operator, parallelism: int) -> dict[str, int]:
    """Return the number of elements by list state, of states that have fewer elements than there are new subtasks.

    Every old subtask must have elements of the state; this does not apply to `expired-files`.
    """
    if parallelism <= operator.parallelism:
        return {}
    element_count_by_state: Counter[str] = Counter()
    subtask_count_by_state: Counter[str] = Counter()
    for state in (state for stream in operator.element_streams for state in stream.states):
        if (
            state.mode is DistributionMode.SPLIT_DISTRIBUTE
            and state.elements
            and state.name not in _STATES_THAT_MAY_BE_EMPTY
        ):
            element_count_by_state[state.name] += len(state.elements)
            subtask_count_by_state[state.name] += 1
    return {
        name: element_count
        for name, element_count in element_count_by_state.items()
        if element_count < parallelism
        and (subtask_count_by_state[name] == operator.parallelism or name == _EXPIRED_FILES_STATE)
    }
