"""Refuses a new shape for an operator of which some subtasks have finished, and others have not.

At another parallelism it is undefined which subtasks have finished, and finished subtasks have no records that could
move to new key groups or into another format.

If Flink itself changes the parallelism, it treats all subtasks as unfinished (`StateAssignmentOperation`). That is
harmless for a source whose coordinator assigns its splits, because no splits are left. Any other source reads its whole
input again. Only the author of the job knows whether that is acceptable, and can request it (`restarts`).

The operators of a chain finish together (`VertexFinishedStateChecker`), so a snapshot shows for each operator whether
it must keep its shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rescale.flink.operator_id import operator_id_of_uid
from rescale.planning.request.operator_shapes import Shape
from rescale.planning.request.request import Request
from rescale.planning.request.result_files import Format
from rescale.planning.request.result_kind import is_rewritten_by_record
from rescale.snapshot.model import Operator
from rescale.text.advice import Advice, Mention, joined, mention
from rescale.text.errors import UnsupportedError
from rescale.text.names import first_of


def refuse_finished(operators: Sequence[Operator], shapes: Mapping[str, Shape], request: Request) -> None:
    """Raise `UnsupportedError` if a partially finished operator would change, and advise a request that avoids it."""
    refused_operators = [
        op for op in operators if op.is_partially_finished and _would_change(op, shapes[op.operator_id], request.format)
    ]
    if not refused_operators:
        return
    first_operator, new_shape = refused_operators[0], shapes[refused_operators[0].operator_id]
    expected_shape, format_text = (
        _kept_shape(first_operator, new_shape),
        "" if request.format is Format.KEEP else ", the format of the source",
    )
    raise UnsupportedError(
        "some subtasks of this operator have finished: it is undefined which new subtasks would count as finished",
        operator=first_of([operator.label for operator in refused_operators], 1),
        expected=f"{expected_shape}{format_text}",
        found=new_shape,
        advice=_advice(operators, shapes, request, refused_operators),
    )


def _would_change(operator: Operator, shape: Shape, result_format: Format) -> bool:
    """Return whether the operator gets another parallelism, or its records are read and rewritten."""
    if shape.parallelism != operator.parallelism:
        return True
    return bool(operator.keyed_headers) and is_rewritten_by_record(operator, shape, result_format)


def _advice(
    operators: Sequence[Operator], shapes: Mapping[str, Shape], request: Request, refused_operators: Sequence[Operator]
) -> Advice:
    partly_finished = [operator for operator in operators if operator.is_partially_finished]
    kept_shapes = {
        operator.operator_id: _kept_shape(operator, shapes[operator.operator_id]) for operator in partly_finished
    }
    allowed_shapes = {**shapes, **kept_shapes}
    options_text = joined(" ", _shape_options(operators, allowed_shapes))
    must_keep_format = any(
        _would_change(operator, allowed_shapes[operator.operator_id], request.format) for operator in refused_operators
    )
    shape_advice = Advice("name only the other operators: ", options_text) if options_text else Advice("keep the shape")
    format_advice = Advice("; leave ", mention("format"), " out, too") if must_keep_format else Advice()
    flink_advice = (
        "; or let Flink itself change the parallelism when it restores the job: it treats all subtasks as unfinished, "
        "which is right for a source whose coordinator assigns its splits"
    )
    keeps_maxima = all(shapes[op.operator_id].max_parallelism == op.max_parallelism for op in operators)
    flink_can_rescale = keeps_maxima and request.format is Format.KEEP
    restart_advice = Advice(
        "; or run them again, if the job allows it: ", mention("restart", selector(refused_operators[0]))
    )
    return Advice(
        shape_advice,
        format_advice,
        restart_advice,
        "; or take a savepoint before subtasks finish",
        flink_advice if flink_can_rescale else "",
    )


def _kept_shape(operator: Operator, shape: Shape) -> Shape:
    """Return a shape that does not change the operator; without keyed state, it has the max parallelism of `shape`."""
    return Shape(operator.parallelism, operator.max_parallelism if operator.keyed_headers else shape.max_parallelism)


def _shape_options(operators: Sequence[Operator], shapes: Mapping[str, Shape]) -> Iterator[Mention]:
    for operator in operators:
        parallelism = shapes[operator.operator_id].parallelism
        if parallelism != operator.parallelism:
            yield mention("parallelism", f"{selector(operator)}={parallelism}")
    max_parallelisms = {shapes[op.operator_id].max_parallelism for op in operators if op.max_parallelism != 1}
    changed_operators = [op for op in operators if shapes[op.operator_id].max_parallelism != op.max_parallelism]
    if changed_operators and len(max_parallelisms) == 1:
        yield mention("max-parallelism", max_parallelisms.pop())
        return
    for operator in changed_operators:
        yield mention("max-parallelism", f"{selector(operator)}={shapes[operator.operator_id].max_parallelism}")


def selector(operator: Operator) -> str:
    """Return a name that selects the operator in a request, whether or not the request has a file of uids."""
    entry = operator.entry
    uid = entry.uid or operator.label
    return uid if operator_id_of_uid(uid) == entry.operator_id else entry.operator_id
