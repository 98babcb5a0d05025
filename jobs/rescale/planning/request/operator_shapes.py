"""Finds the new shape of every operator under a request.

Operators with max parallelism 1 keep it unless the request names them. A snapshot does not say who set max parallelism
1: the job's author, or Flink because the operator can only run with one subtask (`windowAll` and SQL singletons, by
`Transformation.forceNonParallel`). A max parallelism for all operators applies to every other operator, with state or
without, because Flink compares the max parallelism of each with the job's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from rescale.flink.key_groups import UPPER_BOUND_MAX_PARALLELISM, KeyGroupRange, key_group_range
from rescale.flink.operator_id import is_operator_id, operator_id_of_uid
from rescale.plan.plan import Plan
from rescale.planning.request.request import Request
from rescale.snapshot.model import Operator
from rescale.text.advice import Advice, command, mention
from rescale.text.errors import RequestError
from rescale.text.names import did_you_mean

T = TypeVar("T")

_ROOM_FACTOR = 4
"""Factor in both bounds of a good max parallelism (`good_max_parallelism`)."""


class Shape(NamedTuple):
    """The parallelism and the max parallelism of an operator."""

    parallelism: int
    max_parallelism: int

    def __str__(self) -> str:
        return f"parallelism {self.parallelism}, max parallelism {self.max_parallelism}"

    def key_groups_of(self, subtask: int) -> KeyGroupRange:
        """Return the key groups that Flink assigns to a subtask in this shape."""
        return key_group_range(self.max_parallelism, self.parallelism, subtask)


class LabelledOperator(Protocol):
    """Operator of a snapshot or a plan, which a request can name, with the shape that it has in the snapshot."""

    @property
    def operator_id(self) -> str: ...

    @property
    def label(self) -> str: ...

    @property
    def parallelism(self) -> int: ...

    @property
    def max_parallelism(self) -> int: ...


def new_shapes(operators: Sequence[Operator], request: Request) -> dict[str, Shape]:
    """Return the new shape of every operator, by operator id.

    Raises `RequestError` for an operator that cannot have the requested shape. Also raises it for a value for all
    operators if all of them have max parallelism 1.
    """
    largest_for_all = max(request.parallelism.get("", 1), request.max_parallelism.get("", 1))
    if largest_for_all > 1 and operators and all(operator.max_parallelism == 1 for operator in operators):
        raise RequestError(
            "every operator has max parallelism 1, and operators keep that unless the request names them",
            expected="at least one operator with another max parallelism",
            found=f"{len(operators)} operators, all with max parallelism 1",
            advice=Advice(
                "if the job's code set it to 1, name each operator that may get more subtasks: ",
                mention("max-parallelism", f"{operators[0].label}=128"),
            ),
        )
    shapes = _requested_shapes(operators, request)
    for operator in operators:
        _refuse_shape(operator, *shapes[operator.operator_id], operators)
    return shapes


def refuse_result_in_another_shape(plan: Plan, request: Request) -> None:
    """Raise `RequestError` if the request asks for a shape that the result of the plan does not have."""
    if request.parallelism or request.max_parallelism:
        shapes = _requested_shapes(plan.operators, request)
        refuse_another_shape("the target holds a result in another shape", plan, shapes, "name another target")


def refuse_another_shape(problem: str, plan: Plan, shapes: Mapping[str, Shape], advice: str) -> None:
    """Raise `RequestError` if a plan gives an operator another shape than `shapes`, which maps operator ids."""
    for operator in plan.operators:
        shape = Shape(operator.new_parallelism, operator.new_max_parallelism)
        if shape != shapes[operator.operator_id]:
            raise RequestError(
                problem,
                path=plan.target,
                operator=operator.label,
                expected=f"{shapes[operator.operator_id]}, as requested",
                found=shape,
                advice=advice,
            )


def _requested_shapes(operators: Sequence[LabelledOperator], request: Request) -> dict[str, Shape]:
    parallelisms = by_operator(operators, request.parallelism)
    max_parallelisms = by_operator(operators, request.max_parallelism)
    shapes = {}
    for operator in operators:
        operator_id, has_one_key_group = operator.operator_id, operator.max_parallelism == 1
        parallelism = (
            parallelisms.get(operator_id)
            or (not has_one_key_group and request.parallelism.get(""))
            or operator.parallelism
        )
        max_parallelism = (
            max_parallelisms.get(operator_id)
            or (not has_one_key_group and request.max_parallelism.get(""))
            or operator.max_parallelism
        )
        shapes[operator_id] = Shape(parallelism, max_parallelism)
    return shapes


def _refuse_shape(operator: Operator, parallelism: int, max_parallelism: int, operators: Sequence[Operator]) -> None:
    if max_parallelism == 1 != operator.max_parallelism:
        raise RequestError(
            "an operator cannot get max parallelism 1, with which Flink marks operators that can only have one subtask",
            operator=operator.label,
            expected="at least 2",
            advice=Advice("ask for ", mention("parallelism", 1), ", and for a larger max parallelism"),
        )
    if parallelism > max_parallelism:
        raise _above_maximum_error(operator, parallelism, max_parallelism, operators)


def by_operator(operators: Sequence[LabelledOperator], value_by_selector: Mapping[str, T]) -> dict[str, T]:
    """Return the values that a request gives for single operators, by operator id; the value for "" is left out.

    Raises `RequestError` for a selector that names no operator, and for two selectors of the same operator.
    """
    operator_by_id = {operator.operator_id: operator for operator in operators}
    selectors_by_id: dict[str, str] = {}
    for selector in filter(None, value_by_selector):
        operator_id = _require_operator_id(operator_by_id, selector)
        if operator_id in selectors_by_id:
            raise RequestError(
                "the same operator is named twice",
                operator=operator_by_id[operator_id].label,
                found=f"{selectors_by_id[operator_id]!r} and {selector!r}",
            )
        selectors_by_id[operator_id] = selector
    return {operator_id: value_by_selector[selector] for operator_id, selector in selectors_by_id.items()}


def _above_maximum_error(
    operator: Operator, parallelism: int, max_parallelism: int, operators: Sequence[Operator]
) -> RequestError:
    keyed_maxima = {other.max_parallelism for other in operators if other.keyed_headers} - {1}
    suits_all = len(keyed_maxima) == 1 and parallelism <= min(keyed_maxima)
    if operator.max_parallelism == 1:
        advice = Advice(
            "leave the operator out of the request if it can only run with one subtask (windowAll, an SQL singleton); "
            "if the job's code set its max parallelism to 1, ask for another one, too: ",
            mention("max-parallelism", f"{operator.label}={good_max_parallelism(parallelism, max_parallelism)}"),
        )
    elif suits_all and max_parallelism == operator.max_parallelism:
        advice = Advice(
            "request a lower parallelism; or ask for the max parallelism of the operators with keyed state, whose "
            "records then stay as they are: ",
            mention("max-parallelism", min(keyed_maxima)),
        )
    else:
        parallelism_changes = parallelism != operator.parallelism
        lower_advice = (
            ["request a lower parallelism"]
            if parallelism_changes
            else ["also request ", mention("parallelism"), f", at most {max_parallelism}"]
        )
        advice = Advice(
            *lower_advice,
            "; or ask for another maximum: ",
            mention("max-parallelism", good_max_parallelism(parallelism, max_parallelism)),
            f" is a good one: {parallelism} and many other parallelisms divide it, so that all subtasks own the same "
            "number of key groups",
        )
    return RequestError(
        "the parallelism is above the operator's max parallelism",
        operator=operator.label,
        expected=f"at most {max_parallelism}",
        found=parallelism,
        advice=advice,
    )


def _require_operator_id(operator_by_id: Mapping[str, LabelledOperator], selector: str) -> str:
    """Return the operator id that a selector stands for: a uid, a name given by `--uids`, or an operator id.

    Raises `RequestError` if the selector names no operator.
    """
    operator_id = find_operator(operator_by_id, selector)
    if operator_id is not None:
        return operator_id
    labels = [operator.label for operator in operator_by_id.values()]
    suggestion = did_you_mean(selector, labels)
    raise RequestError(
        f"no operator {selector!r} in the snapshot",
        expected=f"the uid or the id of one of: {', '.join(sorted(labels))}",
        found=selector,
        advice=Advice(f"{suggestion} " if suggestion else "", command("inspect"), " lists the operators"),
    )


def find_operator(operator_by_id: Mapping[str, LabelledOperator], selector: str) -> str | None:
    """Return the id of the operator that a selector names, or None. Raises `RequestError` if several have that name."""
    operator_ids = [operator_id for operator_id, operator in operator_by_id.items() if operator.label == selector]
    if len(operator_ids) > 1:
        raise RequestError(
            f"{selector!r} is the name of {len(operator_ids)} operators",
            found=", ".join(sorted(operator_ids)),
            advice="name the operator by its id",
        )
    ids = [*operator_ids, *([selector.lower()] if is_operator_id(selector) else []), operator_id_of_uid(selector)]
    return next((operator_id for operator_id in ids if operator_id in operator_by_id), None)


def matching_states(operator_by_id: Mapping[str, Operator], value: str) -> list[tuple[Operator, str]]:
    """Return each (operator, name of a state) that `UID:NAME` may stand for: both UID and NAME may contain colons."""
    colons = [colon for colon, character in enumerate(value) if character == ":"]
    return [
        (operator_by_id[matched_id], value[colon + 1 :])
        for colon in colons
        if (matched_id := find_operator(operator_by_id, value[:colon]))
    ]


def find_state(
    operators: Sequence[Operator], value: str, has_state: Callable[[Operator, str], object]
) -> tuple[Operator, str]:
    """Return the operator and the name of its state that `UID:NAME` stands for.

    UID and NAME may contain colons, so there may be several candidates. `has_state` tells whether an operator has a
    state of a name. Return the candidate whose operator has the state; if there is none, the first candidate. Raises
    `RequestError` if UID names no operator, or if several candidates have the state.
    """
    candidates = matching_states({operator.operator_id: operator for operator in operators}, value)
    if not candidates:
        by_operator(operators, {value.rpartition(":")[0]: True})  # raises an error that lists the operators
    candidates_with_state = [(operator, name) for operator, name in candidates if has_state(operator, name)]
    if len(candidates_with_state) > 1:
        raise RequestError(
            f"{value!r} may name states of {len(candidates_with_state)} operators",
            found=", ".join(operator.label for operator, _ in candidates_with_state),
            advice="name the operator by its id",
        )
    return (candidates_with_state or candidates)[0]


def good_max_parallelism(parallelism: int, present_maximum: int) -> int:
    """Return a max parallelism that suits `parallelism`: its multiple between F and 4 × F with the most divisors.

    F is max(4 × parallelism, `present_maximum`): enough for growth, and never less room than the job has now. If that
    is more than Flink allows, F is max(parallelism, `present_maximum`). The upper bound, 4 × F or Flink's largest
    value, keeps the cost of key groups small. A multiple gives every subtask the same number of key groups, now and at
    every other parallelism that divides it.

    If several multiples have the most divisors, return the smallest; if there is no multiple, return `present_maximum`.
    """
    lowest_maximum = max(_ROOM_FACTOR * parallelism, present_maximum)
    if lowest_maximum > UPPER_BOUND_MAX_PARALLELISM:  # Flink allows less room to grow
        lowest_maximum = max(parallelism, present_maximum)
    highest_maximum = min(_ROOM_FACTOR * lowest_maximum, UPPER_BOUND_MAX_PARALLELISM)
    multiples = range(-(-lowest_maximum // parallelism) * parallelism, highest_maximum + 1, parallelism)
    return max(multiples, key=lambda multiple: (_count_divisors(multiple), -multiple), default=present_maximum)


def _count_divisors(number: int) -> int:
    small_divisors = [divisor for divisor in range(1, int(number**0.5) + 1) if number % divisor == 0]
    return 2 * len(small_divisors) - (small_divisors[-1] ** 2 == number)
