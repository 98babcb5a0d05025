"""The new shape of every operator, from a request.

Operators recorded with max parallelism 1 (`windowAll`, SQL singletons: Flink calls `forceNonParallel`) stay as
they are under every request for all; naming one is an error. All others get a new maximum together: Flink compares
the one of every operator with the job's, whether it has state or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from rescale.errors import RequestError
from rescale.flink.key_groups import KeyGroupRange, key_group_range
from rescale.flink.operator_id import is_operator_id, operator_id_of_uid
from rescale.names import did_you_mean
from rescale.planning.asked.good_maximum import good_max_parallelism
from rescale.planning.asked.request import Request
from rescale.snapshot.model import Operator

T = TypeVar("T")


class Shape(NamedTuple):
    parallelism: int
    max_parallelism: int

    def key_groups_of(self, subtask: int) -> KeyGroupRange:
        """Those that Flink gives it in this shape."""
        return key_group_range(self.max_parallelism, self.parallelism, subtask)


def new_shapes(operators: Sequence[Operator], request: Request) -> dict[str, Shape]:
    """New shape by operator id; `RequestError` names the operator that cannot have what was asked for.

    Nor is a request for all taken that none could follow.
    """
    of_all = max(request.parallelism.get("", 1), request.max_parallelism.get("", 1))
    if of_all > 1 and operators and all(operator.max_parallelism == 1 for operator in operators):
        raise RequestError(
            "every operator has max parallelism 1, and stays as it is",
            expected="one operator at least that may run with more than one subtask",
            found=f"{len(operators)} of which none may",
            advice="a job that set its max parallelism to 1 itself cannot be told from one that must run with one "
            "subtask; without a shape the result is a copy",
        )
    parallelisms = by_operator(operators, request.parallelism)
    maxima = by_operator(operators, request.max_parallelism)
    shapes = {}
    for operator in operators:
        common = ({}, {}) if operator.max_parallelism == 1 else (request.parallelism, request.max_parallelism)
        wanted = parallelisms.get(operator.operator_id) or common[0].get("") or operator.parallelism
        maximum = maxima.get(operator.operator_id) or common[1].get("") or operator.max_parallelism
        _refuse_shape(operator, wanted, maximum)
        shapes[operator.operator_id] = Shape(wanted, maximum)
    return shapes


def _refuse_shape(operator: Operator, parallelism: int, maximum: int) -> None:
    stays = operator.max_parallelism == 1
    if stays and maximum != 1:
        raise RequestError(
            "this operator always runs with one subtask, and its max parallelism is 1 for ever",
            operator=operator.label,
            advice="leave it out of the request",
        )
    if maximum == 1 and not stays:
        raise RequestError(
            "max parallelism 1 is for ever: it is how Flink marks what can only run with one subtask",
            operator=operator.label,
            expected="at least 2",
            advice="ask for --parallelism 1, and for a max parallelism that leaves room",
        )
    if parallelism > maximum:
        raise _above_maximum(operator, parallelism, maximum)


def by_operator(operators: Sequence[Operator], words: Mapping[str, T]) -> dict[str, T]:
    """What a request says of single operators, by operator id; `RequestError` names one that is not there."""
    by_id = {operator.operator_id: operator for operator in operators}
    selected: dict[str, str] = {}
    for selector in filter(None, words):
        operator_id = _find(by_id, selector)
        if operator_id in selected:
            raise RequestError(
                "the same operator is named twice",
                operator=by_id[operator_id].label,
                found=f"{selected[operator_id]!r} and {selector!r}",
            )
        selected[operator_id] = selector
    return {operator_id: words[selector] for operator_id, selector in selected.items()}


def _above_maximum(operator: Operator, wanted: int, maximum: int) -> RequestError:
    if operator.max_parallelism == 1:
        advice = "this operator always runs with one subtask: leave it out of the request"
    else:
        good = good_max_parallelism(wanted, maximum)
        advice = (
            f"ask for less, or for another maximum too: --max-parallelism {good} would be good, a multiple of {wanted} "
            "(every subtask owns as many key groups) with many divisors (other parallelisms that are as even)"
        )
        if wanted == operator.parallelism:
            advice = f"say --parallelism too, at most {maximum}; or {advice.removeprefix('ask for less, or ')}"
    return RequestError(
        "the parallelism is above the operator's max parallelism",
        operator=operator.label,
        expected=f"at most {maximum}",
        found=wanted,
        advice=advice,
    )


def _find(by_id: Mapping[str, Operator], selector: str) -> str:
    """The operator id that a uid, a name given by `--uids`, or an operator id stands for."""
    found = find_operator(by_id, selector)
    if found is not None:
        return found
    labels = [operator.label for operator in by_id.values()]
    raise RequestError(
        f"no operator {selector!r} in the snapshot",
        expected=f"the uid or the id of one of: {', '.join(sorted(labels))}",
        found=selector,
        advice=" ".join(filter(None, [did_you_mean(selector, labels), "rescale inspect lists the operators"])),
    )


def find_operator(by_id: Mapping[str, Operator], selector: str) -> str | None:
    """The same; None if it stands for none, `RequestError` if it is the name of several."""
    named = [operator_id for operator_id, operator in by_id.items() if operator.label == selector]
    if len(named) > 1:
        raise RequestError(
            f"{selector!r} is the name of {len(named)} operators",
            found=", ".join(sorted(named)),
            advice="name one by its operator id",
        )
    ids = [*named, *([selector.lower()] if is_operator_id(selector) else []), operator_id_of_uid(selector)]
    return next((operator_id for operator_id in ids if operator_id in by_id), None)
