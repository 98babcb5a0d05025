"""Drop single states of an operator, which keeps its other states.

Operator state stores the elements of each state separately, so dropping a state removes its elements from the stream.
The records of all keyed states of an operator are stored together, so readers skip the records of the states in
`Operator.dropped_states`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.flink.keyed.header import require_header
from rescale.flink.operator_state import write_operator_state_header
from rescale.snapshot.model import ElementStream, Operator
from rescale.text.advice import Advice, mention
from rescale.text.errors import UnsupportedError

_DROP_OPERATOR_ADVICE = Advice(
    "drop the whole operator (", mention("drop", "UID"), "), or let the job itself clear the state"
)


@dataclass(frozen=True)
class DroppedState:
    """A state that the result leaves out.

    `bytes` counts the bytes of the state, and `of_bytes` the bytes of all states that are stored together with it. For
    operator state both are the same. For keyed state `elements` is None. `bytes` is None if the operator has several
    keyed states: their sizes are not known before the records are read. RocksDB keeps each state in SST files of its
    own. If MANIFESTs were read, `stored_bytes` counts the compressed bytes of these files, including overwritten and
    deleted rows.
    """

    operator_id: str
    label: str
    name: str
    type: str
    elements: int | None
    bytes: int | None
    of_bytes: int
    stored_bytes: int | None = None


def states_to_drop(operator: Operator, name: str) -> tuple[DroppedState, ...]:
    """Return the states of this name that a run would drop: an operator may have keyed and operator state of one name.

    Raises `UnsupportedError` if a state cannot be left out.
    """
    return (*_keyed_states_to_drop(operator, name), *_element_states_to_drop(operator, name))


def state_names(operator: Operator) -> list[str]:
    """Return the sorted names of the states that can be dropped."""
    element_states = [state.name for stream in operator.element_streams for state in stream.states]
    return sorted({*_type_by_keyed_state(operator), *element_states})


def without_states(operator: Operator, names: Collection[str]) -> Operator:
    """Return the operator as if it had never had states with these names."""
    if not names:
        return operator
    entry, dropped_states = operator.entry, frozenset(names) & _type_by_keyed_state(operator).keys()
    streams = tuple(filter(None, (_stream_without(stream, names) for stream in operator.element_streams)))
    operator = replace(operator, element_streams=streams, dropped_states=dropped_states)
    if not dropped_states or dropped_states != _type_by_keyed_state(operator).keys():
        return operator
    subtasks = tuple(
        replace(subtask, state=replace(subtask.state, managed_keyed=None)) if subtask.state is not None else subtask
        for subtask in entry.subtasks
    )
    entry = replace(entry, subtasks=subtasks)
    return replace(operator, entry=entry, keyed=(), databases=(), changelogs=(), dropped_states=frozenset())


def with_stored_bytes(dropped: DroppedState, operator: Operator) -> DroppedState:
    """Return the dropped state of `operator` with its `stored_bytes`, if it has databases whose MANIFESTs were read."""
    if dropped.elements is not None or not any(database.tables for database in operator.databases):
        return dropped
    table_sizes = [
        table.extent.length
        for database in operator.databases
        for table in database.tables
        if require_header(database.parsed).states[table.state_id].name == dropped.name
    ]
    return replace(dropped, stored_bytes=sum(table_sizes))


def _keyed_states_to_drop(operator: Operator, name: str) -> Iterator[DroppedState]:
    timer_states = [state.name for stream in operator.raw_timers if stream.parsed for state in stream.parsed.states]
    if name in timer_states:
        raise UnsupportedError(
            "cannot leave out timers that are kept on the heap, in raw keyed state",
            operator=operator.label,
            state=name,
            advice=f"{RESCALE_CANONICAL_SAVEPOINT}, in which timers are state like any other",
        )
    type_by_state = _type_by_keyed_state(operator)
    if name not in type_by_state and all(holder.parsed is not None for holder in operator.managed_keyed):
        return
    if any(holder.parsed is None for holder in operator.managed_keyed):
        if name in {state.name for stream in operator.element_streams for state in stream.states}:
            return
        raise UnsupportedError(
            "an unknown serializer hides the names of the keyed states, so no single state can be left out",
            operator=operator.label,
            state=name,
            advice=_DROP_OPERATOR_ADVICE,
        )
    size = sum(holder.size for holder in operator.managed_keyed)
    state_size = size if type_by_state.keys() == {name} else None
    yield DroppedState(operator.operator_id, operator.label, name, type_by_state[name], None, state_size, size)


def _element_states_to_drop(operator: Operator, name: str) -> Iterator[DroppedState]:
    states = [state for stream in operator.element_streams for state in stream.states if state.name == name]
    if not states:
        return
    if any(stream.parsed is None for stream in operator.element_streams if stream.header):
        raise UnsupportedError(
            "an unknown serializer hides the other states in the header of the operator state",
            operator=operator.label,
            state=name,
            advice=_DROP_OPERATOR_ADVICE,
        )
    size = sum(extent.length for state in states for extent in state.elements)
    element_count = sum(len(state.elements) for state in states)
    entry = operator.entry
    yield DroppedState(entry.operator_id, operator.label, name, states[0].mode.name, element_count, size, size)


def _type_by_keyed_state(operator: Operator) -> dict[str, str]:
    headers = [holder.parsed for holder in operator.managed_keyed if holder.parsed is not None]
    return {state.name: state.state_type for header in headers for state in header.states}


def _stream_without(stream: ElementStream, names: Collection[str]) -> ElementStream | None:
    """Return the stream without the states with these names; None if no state is left."""
    states = tuple(state for state in stream.states if state.name not in names)
    if stream.parsed is None:
        return stream
    list_states, broadcast_states = (
        tuple(state for state in infos if state.name not in names)
        for infos in (stream.parsed.list_states, stream.parsed.broadcast_states)
    )
    if not (states or list_states or broadcast_states):
        return None
    new_header = replace(stream.parsed, list_states=list_states, broadcast_states=broadcast_states)
    if new_header == stream.parsed:
        return stream
    header = write_operator_state_header(new_header)
    return replace(stream, states=states, header=header, parsed=new_header, has_stored_header=False)
