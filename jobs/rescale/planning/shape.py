"""The new parallelism of every operator, from a request.

Operators recorded with max parallelism 1 (`windowAll`, SQL singletons: Flink calls `forceNonParallel`) stay as
they are under every request for all; naming one is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from rescale.errors import RequestError
from rescale.flink.operator_id import is_operator_id, operator_id_of_uid
from rescale.planning.request import Request
from rescale.planning.snapshot import Operator


def new_parallelisms(operators: Sequence[Operator], request: Request) -> dict[str, int]:
    """New parallelism by operator id; `RequestError` names the operator that cannot have what was asked for."""
    by_id = {operator.entry.operator_id: operator for operator in operators}
    named = {_find(by_id, selector): n for selector, n in request.parallelism.items() if selector}
    for_all = request.parallelism.get("")
    shape = {}
    for operator_id, operator in by_id.items():
        stays = operator.entry.max_parallelism == 1
        wanted = named.get(operator_id, None if stays else for_all) or operator.entry.parallelism
        if wanted > operator.entry.max_parallelism:
            raise RequestError(
                "the parallelism asked for is above the operator's max parallelism",
                operator=operator.label,
                expected=f"at most {operator.entry.max_parallelism}",
                found=wanted,
                advice="this operator always runs with one subtask: leave it out of the request"
                if stays
                else "ask for less",
            )
        shape[operator_id] = wanted
    return shape


def _find(by_id: dict[str, Operator], selector: str) -> str:
    """The operator id that a uid, a name given by `--uids`, or an operator id stands for."""
    ids = [operator_id for operator_id, operator in by_id.items() if operator.label == selector]
    ids += [selector.lower()] if is_operator_id(selector) else []
    ids += [operator_id_of_uid(selector)]
    for operator_id in ids:
        if operator_id in by_id:
            return operator_id
    raise RequestError(
        f"no operator {selector!r} in the snapshot",
        expected=f"the uid or the id of one of: {', '.join(sorted(o.label for o in by_id.values()))}",
        found=selector,
        advice="rescale inspect lists the operators",
    )
