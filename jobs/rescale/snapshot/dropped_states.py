"""One state of an operator that is left out, where the operator and its other states stay.

Elements of operator state lie apart by state, so the rest of a stream is what is left of it. Records of keyed state lie
among those of other states: whoever reads them leaves out the state's, which `Operator.left_out` names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from rescale.errors import UnsupportedError
from rescale.flink.advice import CANONICAL
from rescale.flink.keyed.header import understood
from rescale.flink.operator_state import write_operator_state_header
from rescale.snapshot.model import ElementStream, Operator


@dataclass(frozen=True)
class DroppedState:
    """A state that is left out. Of keyed state `elements` is None, and so is `bytes` where it is one of several.

    Nobody knows before it is read: it is some of the operator's managed keyed state, which has `of_bytes`. But each
    state has SST files of its own in RocksDB, which take `stored_bytes`, if they were looked at: compressed, and with
    what was overwritten or deleted. Of operator state `of_bytes` is the same as `bytes`.
    """

    operator_id: str
    label: str
    name: str
    type: str
    elements: int | None
    bytes: int | None
    of_bytes: int
    stored_bytes: int | None = None


def lost_states(operator: Operator, name: str) -> tuple[DroppedState, ...]:
    """The states of that name, of which an operator may have a keyed one and one that is not; none if there is none.

    `UnsupportedError` where it cannot be left out.
    """
    return (*_lost_keyed(operator, name), *_lost_elements(operator, name))


def state_names(operator: Operator) -> list[str]:
    """Those that can be named."""
    elements = [state.name for stream in operator.operator for state in stream.states]
    return sorted({*_keyed_types(operator), *elements})


def without_states(operator: Operator, names: Collection[str]) -> Operator:
    """The operator as if it had never had states of these names."""
    if not names:
        return operator
    entry, left_out = operator.entry, frozenset(names) & _keyed_types(operator).keys()
    streams = tuple(filter(None, (_without(stream, names) for stream in operator.operator)))
    operator = replace(operator, operator=streams, left_out=left_out)
    if not left_out or left_out != _keyed_types(operator).keys():
        return operator
    subtasks = tuple(
        replace(one, state=replace(one.state, managed_keyed=None)) if one.state is not None else one
        for one in entry.subtasks
    )
    entry = replace(entry, subtasks=subtasks)
    return replace(operator, entry=entry, keyed=(), databases=(), changelogs=(), left_out=frozenset())


def with_stored_bytes(lost: DroppedState, operator: Operator) -> DroppedState:
    """`operator` is the one that it is left out of; as it was if that has no RocksDB files, or none was looked at."""
    if lost.elements is not None or not any(database.tables for database in operator.databases):
        return lost
    tables = [
        table.extent.length
        for database in operator.databases
        for table in database.tables
        if understood(database.parsed).states[table.state].name == lost.name
    ]
    return replace(lost, stored_bytes=sum(tables))


def _lost_keyed(operator: Operator, name: str) -> Iterator[DroppedState]:
    timers = [state.name for one in operator.raw_timers if one.parsed is not None for state in one.parsed.states]
    if name in timers:
        raise UnsupportedError(
            "timers that are kept on the heap beside the keyed state cannot be left out",
            operator=operator.label,
            state=name,
            advice=f"{CANONICAL}: there they are state like any other",
        )
    types = _keyed_types(operator)
    if name not in types and all(one.parsed is not None for one in operator.managed_keyed):
        return
    if any(one.parsed is None for one in operator.managed_keyed):
        if name in {state.name for stream in operator.operator for state in stream.states}:
            return
        raise UnsupportedError(
            "a serializer is not known that hides the names of keyed states, so that none can be left out",
            operator=operator.label,
            state=name,
            advice="drop the whole operator (--drop UID), or let the job itself clear the state",
        )
    size = sum(holder.size for holder in operator.managed_keyed)
    own = size if types.keys() == {name} else None
    yield DroppedState(operator.operator_id, operator.label, name, types[name], None, own, size)


def _lost_elements(operator: Operator, name: str) -> Iterator[DroppedState]:
    found = [state for stream in operator.operator for state in stream.states if state.name == name]
    if not found:
        return
    if any(stream.parsed is None for stream in operator.operator if stream.header):
        raise UnsupportedError(
            "a serializer is not known that hides what the header of the operator state says of others",
            operator=operator.label,
            state=name,
            advice="drop the whole operator (--drop UID), or let the job itself clear the state",
        )
    size = sum(extent.length for state in found for extent in state.elements)
    elements = sum(len(state.elements) for state in found)
    entry = operator.entry
    yield DroppedState(entry.operator_id, operator.label, name, found[0].mode.name, elements, size, size)


def _keyed_types(operator: Operator) -> dict[str, str]:
    """Of managed keyed states, by name."""
    headers = [one.parsed for one in operator.managed_keyed if one.parsed is not None]
    return {state.name: state.state_type for header in headers for state in header.states}


def _without(stream: ElementStream, names: Collection[str]) -> ElementStream | None:
    """The stream without states of these names; None if there is nothing left of it."""
    states = tuple(state for state in stream.states if state.name not in names)
    if stream.parsed is None:
        return stream
    listed, broadcast = (
        tuple(state for state in some if state.name not in names)
        for some in (stream.parsed.list_states, stream.parsed.broadcast_states)
    )
    if not (states or listed or broadcast):
        return None
    parsed = replace(stream.parsed, list_states=listed, broadcast_states=broadcast)
    if parsed == stream.parsed:
        return stream
    header = write_operator_state_header(parsed)
    return replace(stream, states=states, header=header, parsed=parsed, has_own_header=False)
