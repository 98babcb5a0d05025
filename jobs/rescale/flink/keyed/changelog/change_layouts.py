"""Layout of the changes of a state, with the programs that delimit their parts (`KvStateChangeLoggerImpl`).

    change: operation:u8 stateId:i16 key namespace payload        in a priority queue: operation:u8 stateId:i16 payload

A change has its size in front, so the end of its payload is known. The type of a map's user keys must be known. The
type of values must be known only for changes with several values of a list or a map.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rescale.flink.advice import MATERIALISE_CHANGELOG
from rescale.flink.keyed.changelog.logged_states import Operation
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.heap.heap_entries import EntryKind, entry_serializers
from rescale.flink.keyed.namespaces import namespace_serializer
from rescale.flink.keyed.timers.heap_timers import TIME_SIZE
from rescale.flink.serializers.program import Program, compile_if_known, compile_key_program, compile_program
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.type_tree import Fixed, Sequence
from rescale.flink.state_meta_info import SerializerKey, StateKind, StateMetaInfo
from rescale.text.errors import UnsupportedError

_BASIC_OPERATIONS = frozenset({Operation.CLEAR, Operation.SET, Operation.SET_INTERNAL, Operation.MERGE_NS})

KNOWN_OPERATIONS: Mapping[str, frozenset[Operation]] = MappingProxyType(
    {
        "VALUE": frozenset({Operation.CLEAR, Operation.SET}),
        "REDUCING": _BASIC_OPERATIONS,
        "AGGREGATING": _BASIC_OPERATIONS,
        "LIST": _BASIC_OPERATIONS | {Operation.ADD, Operation.ADD_ELEMENT},
        "MAP": frozenset(
            {
                Operation.CLEAR,
                Operation.ADD,
                Operation.ADD_ELEMENT,
                Operation.ADD_OR_UPDATE_ELEMENT,
                Operation.REMOVE_ELEMENT,
            }
        ),
        "TIMERS": frozenset({Operation.ADD_ELEMENT, Operation.REMOVE_ELEMENT}),
    }
)
"""Operations that Flink applies at restore, by type of state (`ValueStateChangeApplier` and its siblings)."""


@dataclass(frozen=True)
class ChangeLayout:
    """Layout of the changes of a state.

    `first_program` is the program of a value, a list's element, a map's user key or a timer, and `second_program` that
    of a map's value; None if the type is unknown. If `has_lengths`, neither the key nor the namespace has a fixed
    length, so a composite key contains their lengths.
    """

    state: StateMetaInfo
    kind: EntryKind
    key_program: Program
    namespace_program: Program
    first_program: Program | None
    second_program: Program | None
    has_lengths: bool

    @property
    def operations(self) -> frozenset[Operation]:
        """Operations that Flink applies to this type of state."""
        return KNOWN_OPERATIONS[self.state.state_type]


def change_layout(header: KeyedHeader, state: StateMetaInfo) -> ChangeLayout:
    """Return the layout of a state's changes. Raises `UnsupportedError` if parts of a change cannot be delimited."""
    try:
        return _layout(header.key_serializer, state)
    except UnsupportedError as error:
        what = f"the changes of a state cannot be replayed: {error.what}"
        raise error.recast(UnsupportedError, what, state=state.name, advice=MATERIALISE_CHANGELOG) from None


def _layout(key_serializer: SerializerSnapshot, state: StateMetaInfo) -> ChangeLayout:
    if state.state_type not in KNOWN_OPERATIONS:
        raise UnsupportedError(
            "the format of changes to this type of state is unknown",
            expected=", ".join(KNOWN_OPERATIONS),
            found=f"a state of type {state.state_type}",
        )
    key, namespace = compile_key_program(key_serializer), compile_program(namespace_serializer(state))
    value_serializer = state.serializer(SerializerKey.VALUE)
    if value_serializer is None:
        raise UnsupportedError("the state has no value serializer")
    if state.kind is StateKind.PRIORITY_QUEUE:
        timer = Program("timer", Sequence((Fixed(TIME_SIZE), key.tree, namespace.tree)))
        return ChangeLayout(state, EntryKind.QUEUE_ELEMENT, key, namespace, timer, None, has_lengths=False)
    kind, serializers = entry_serializers(state, value_serializer)
    first, second = (*(map(compile_if_known, serializers)), None)[:2]
    if kind is EntryKind.MAP:
        # The type of user keys must be known: a user key precedes each value, and has no length in front.
        first = compile_program(serializers[0])
    has_lengths = key.fixed_length is None and namespace.fixed_length is None
    return ChangeLayout(state, kind, key, namespace, first, second, has_lengths)
