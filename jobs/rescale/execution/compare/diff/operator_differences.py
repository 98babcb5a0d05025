"""Finds differences between two operators other than in their records and elements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rescale.execution.compare.diff.differences import ONLY_IN, OTHER_TYPE, OTHER_VALUE, amount, diffed_state
from rescale.execution.compare.diff.pairs import OperatorPair
from rescale.execution.sources.byte_digests import digest
from rescale.flink.serializers.reading import type_name
from rescale.flink.state_meta_info import StateMetaInfo
from rescale.report.differences import DiffedState, ListedDifference, ListedShape, StateAmount
from rescale.snapshot.model import Operator
from rescale.text.units import counted


def shape_of(operator: Operator | None) -> ListedShape | None:
    """Return the shape of an operator; None if the snapshot does not have the operator."""
    return ListedShape(operator.parallelism, operator.max_parallelism) if operator is not None else None


def operator_differences(pair: OperatorPair) -> Iterator[ListedDifference]:
    """Yield what differs between both operators: presence, finished subtasks, key types, coordinator, headers."""
    a, b = pair.sides
    if a is None or b is None:
        (operator,) = pair.listed_operators
        if operator.bytes or operator.entry.coordinator is not None:
            size_text = f"{counted(operator.bytes, 'byte')} of state"
            yield ListedDifference(
                ONLY_IN[a is None], {"operator": pair.label}, *((size_text, None) if a else (None, size_text))
            )
        return
    finish_texts = _finish_text(a), _finish_text(b)
    any_partly_finished = a.is_partially_finished or b.is_partially_finished
    if finish_texts[0] != finish_texts[1] and (any_partly_finished or a.entry.fully_finished != b.entry.fully_finished):
        yield ListedDifference(OTHER_VALUE, {"operator": "has finished"}, *finish_texts)
    key_types_by_side = [{type_name(header.key_serializer) for header in side.parsed_headers} for side in (a, b)]
    if all(key_types_by_side) and key_types_by_side[0] != key_types_by_side[1]:
        yield ListedDifference(
            OTHER_TYPE, {"operator": "key"}, *(", ".join(sorted(names)) for names in key_types_by_side)
        )
    yield from _coordinator_differences(a, b)
    yield from _header_differences(a, b)


def _coordinator_differences(a: Operator, b: Operator) -> Iterator[ListedDifference]:
    """Yield a difference if the handles of the coordinator's state have different names.

    Flink names these handles by the operator's id (`OperatorCoordinatorHolder`). All other inline handles get a random
    name at each checkpoint, so their names are not compared.
    """
    handle_names = [side.entry.coordinator.name if side.entry.coordinator is not None else None for side in (a, b)]
    if None not in handle_names and handle_names[0] != handle_names[1]:
        yield ListedDifference(OTHER_VALUE, {"operator": "name of the coordinator's handle"}, *handle_names)


def _header_differences(a: Operator, b: Operator) -> Iterator[ListedDifference]:
    """Yield a difference if headers of operator state differ and an unknown serializer hides how."""
    headers_by_side = [{stream.header for stream in side.element_streams} for side in (a, b)]
    are_parsed = all(stream.parsed is not None for side in (a, b) for stream in side.element_streams)
    if not are_parsed and all(headers_by_side) and headers_by_side[0] != headers_by_side[1]:
        sizes = (counted(sum(map(len, side_headers)), "byte") for side_headers in headers_by_side)
        descriptions = (f"{size}, with an unknown serializer in them" for size in sizes)
        yield ListedDifference(OTHER_VALUE, {"operator": "headers of operator state"}, *descriptions)


def _finish_text(operator: Operator) -> str:
    finished_subtasks = sorted(subtask.index for subtask in operator.entry.subtasks if subtask.finished)
    if operator.entry.fully_finished:
        return "finished"
    return f"finished in subtasks {', '.join(map(str, finished_subtasks))}" if finished_subtasks else "running"


def state_types(operator: Operator | None) -> dict[str, str]:
    """Return the types of an operator's keyed states by name, from headers without unknown serializers."""
    if operator is None:
        return {}
    staying_states = (state for state in operator.keyed_states if state.name not in operator.dropped_states)
    return {state.name: _type_text(state) for state in staying_states}


def element_types(operator: Operator | None) -> dict[str, str]:
    """Return the types of an operator's list, union and broadcast states by name, from headers without unknown types.

    If subtasks have registered a state with different types, all types are listed.
    """
    types_by_name: dict[str, set[str]] = defaultdict(set)
    for stream in operator.element_streams if operator is not None else ():
        for info in stream.parsed.states if stream.parsed is not None else ():
            types_by_name[info.name].add(_type_text(info))
    return {name: ", ".join(sorted(types)) for name, types in types_by_name.items()}


def _type_text(info: StateMetaInfo) -> str:
    return f"{info.state_type} {', '.join(map(type_name, info.content_serializers))}"


def opaque_state(state: str, kind: str, a: bytes | None, b: bytes | None) -> DiffedState | None:
    """Compare a state by its bytes, because its format is unknown; None if neither snapshot has the state."""
    if a is None and b is None:
        return None
    differences: tuple[ListedDifference, ...] = ()
    if a != b:
        kind_of_difference = OTHER_VALUE if a is not None and b is not None else ONLY_IN[a is None]
        differences = (ListedDifference(kind_of_difference, {}, _size_text(a), _size_text(b)),)
    return diffed_state(state, kind, "bytes", _opaque_amount(a), _opaque_amount(b), differences, len(differences))


def _opaque_amount(data: bytes | None) -> StateAmount:
    return amount(len(data), digest([data])) if data is not None else amount()


def _size_text(data: bytes | None) -> str | None:
    return counted(len(data), "byte") if data is not None else None
