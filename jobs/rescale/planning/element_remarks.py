"""What the user should know of list states whose owner cannot do with what redistribution gives it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rescale.planning.asked.operator_shapes import Shape
from rescale.snapshot.model import Operator

_EXPIRED_FILES = "expired-files"
"""Of `CompactOperator` (a SQL table in files with `auto-compaction`), which takes the first element without a look."""


def of_elements(operators: Sequence[Operator], shapes: Mapping[str, Shape]) -> Iterator[str]:
    """One sentence for each operator that will not start, whoever deals its elements."""
    for operator in operators:
        parallelism = shapes[operator.operator_id].parallelism
        held = [state for stream in operator.operator for state in stream.states if state.name == _EXPIRED_FILES]
        elements = sum(len(state.elements) for state in held)
        if held and operator.parallelism < parallelism > elements:
            yield (
                f"{operator.label}: what compacts the files of a SQL table (CompactOperator) needs an element of "
                f"{_EXPIRED_FILES} in every subtask, and there are {elements} for {parallelism}: the job fails as soon "
                "as it is started, and so it does where Flink changes the parallelism itself. Keep the sink at "
                f"parallelism {operator.parallelism}, in the request and in the table (sink.parallelism)"
            )
