"""Operators of which some subtasks have finished, and others not yet.

A result in another shape could not say which of its subtasks have finished; nor do finished subtasks have records for
new key groups, or of another kind. Flink itself, at another parallelism, takes all subtasks for ones that have not
(`StateAssignmentOperation`): sources that are given their splits have none left to read, but one that begins by itself
begins anew. That is for whoever knows the job to decide. Operators of one chain finish together
(`VertexFinishedStateChecker`), so all that stay are found in a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rescale.errors import UnsupportedError
from rescale.flink.operator_id import operator_id_of_uid
from rescale.names import quoted
from rescale.planning.asked.operator_shapes import Shape
from rescale.planning.asked.request import Format, Request
from rescale.planning.asked.result_kind import goes_by_record
from rescale.snapshot.model import Operator


def refuse_finished(operators: Sequence[Operator], shapes: Mapping[str, Shape], request: Request) -> None:
    """`UnsupportedError` names all for which something else is asked, and the request that leaves them as they are."""
    refused = [one for one in operators if one.partially_finished and _changes(one, _new(one, shapes), request.format)]
    if not refused:
        return
    first, new = refused[0], _new(refused[0], shapes)
    more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
    kept, no_format = _kept(first, new), "" if request.format is Format.KEEP else ", no --format"
    raise UnsupportedError(
        "some subtasks of this operator have finished: which of others would have, nothing says",
        operator=f"{first.label}{more}",
        expected=f"parallelism {kept.parallelism}, max parallelism {kept.max_parallelism}{no_format}",
        found=f"parallelism {new.parallelism} and max parallelism {new.max_parallelism}",
        advice=_advice(operators, shapes, request, refused),
    )


def _new(operator: Operator, shapes: Mapping[str, Shape]) -> Shape:
    return shapes[operator.operator_id]


def _changes(operator: Operator, shape: Shape, wanted: Format) -> bool:
    """Whether subtasks would be others, or records be read of those that have some."""
    if shape.parallelism != operator.parallelism:
        return True
    return bool(operator.keyed_headers) and goes_by_record(operator, shape, wanted)


def _advice(
    operators: Sequence[Operator], shapes: Mapping[str, Shape], request: Request, refused: Sequence[Operator]
) -> str:
    kept = {one.operator_id: _kept(one, _new(one, shapes)) for one in operators if one.partially_finished}
    allowed = {**shapes, **kept}
    words = " ".join(_words(operators, allowed))
    no_format = any(_changes(one, allowed[one.operator_id], request.format) for one in refused)
    name = f"name the others only: {words}" if words else "ask for no other shape"
    also = "; leave --format out, too" if no_format else ""
    by_flink = (
        "; or let Flink itself change the parallelism, at restore: it begins with all subtasks unfinished, which is "
        "well where a source is given its splits"
    )
    same_maxima = all(_new(one, shapes).max_parallelism == one.max_parallelism for one in operators)
    can_flink = same_maxima and request.format is Format.KEEP
    return f"{name}{also}; or take a savepoint before subtasks finish{by_flink if can_flink else ''}"


def _kept(operator: Operator, shape: Shape) -> Shape:
    """Another max parallelism is nothing to operators without key groups."""
    return Shape(operator.parallelism, operator.max_parallelism if operator.keyed_headers else shape.max_parallelism)


def _words(operators: Sequence[Operator], shapes: Mapping[str, Shape]) -> Iterator[str]:
    """The options that stand for the shapes."""
    for one in operators:
        parallelism = shapes[one.operator_id].parallelism
        if parallelism != one.parallelism:
            yield f"--parallelism {quoted(f'{_word(one)}={parallelism}')}"
    maxima = {shapes[one.operator_id].max_parallelism for one in operators if one.max_parallelism != 1}
    changed = [one for one in operators if shapes[one.operator_id].max_parallelism != one.max_parallelism]
    if changed and len(maxima) == 1:
        yield f"--max-parallelism {maxima.pop()}"
        return
    for one in changed:
        yield f"--max-parallelism {quoted(f'{_word(one)}={shapes[one.operator_id].max_parallelism}')}"


def _word(operator: Operator) -> str:
    """How a request names the operator, whether or not there is a file of uids."""
    entry = operator.entry
    uid = entry.uid or operator.label
    return uid if operator_id_of_uid(uid) == entry.operator_id else entry.operator_id
