"""Layout of the entries of a heap state, with the types that delimit them (`StateTable`, `HeapMapState`).

    entry: namespace key value        in a priority queue: the element alone

Entries have no lengths, so only the types of all serializers tell where an entry ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache

from rescale.flink.advice import CANONICAL
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.namespaces import namespace_serializer, serializer_of
from rescale.flink.serializers.program import compile_key_program, compile_program
from rescale.flink.serializers.reading import type_name
from rescale.flink.serializers.rows.core import LIST, MAP
from rescale.flink.serializers.rows.streaming import TTL_AWARE
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.type_tree import Fixed, Nullable, Repeat, Sequence, TypeTree, takes_bytes
from rescale.flink.state_meta_info import SerializerKey, StateKind, StateMetaInfo
from rescale.text.errors import UnsupportedError

_TIME = Fixed(8)
_NOTHING = Fixed(0)


class EntryKind(IntEnum):
    """Content of an entry: the codes of `heap_loop`."""

    VALUE = 0
    LIST = 1
    MAP = 2
    ELEMENT = 3


@dataclass(frozen=True)
class EntryLayout:
    """Layout of the entries of a state.

    `first` is the value, a list's element, a map's key, or a queue's element; `second` is a map's value. If
    `ambiguous`, neither key nor namespace have a fixed length, so a composite key contains their lengths.
    """

    kind: EntryKind
    namespace: TypeTree
    key: TypeTree
    first: TypeTree
    second: TypeTree
    ambiguous: bool

    @property
    def whole(self) -> EntryLayout:
        """Layout that treats a list or a map as a single value, as its serializer does."""
        if self.kind is EntryKind.LIST:
            return replace(self, kind=EntryKind.VALUE, first=Repeat((self.first,)))
        if self.kind is EntryKind.MAP:
            items = Repeat((self.first, Nullable(self.second)), folds=False)
            return replace(self, kind=EntryKind.VALUE, first=items, second=_NOTHING)
        return self


@lru_cache(maxsize=64)
def entry_layouts(header: KeyedHeader) -> tuple[EntryLayout, ...]:
    """Return the layouts by state id; `UnsupportedError` names a state whose entries cannot be delimited."""
    return tuple(_located(header.key_serializer, state) for state in header.states)


def tells_entries(header: KeyedHeader | None) -> bool:
    """Whether the entries of all states can be delimited, whatever values they have.

    An object of a subclass of its POJO cannot be delimited; the serializer lists subclasses if there are any.
    """
    if header is None:
        return False
    serializers = [serializer for state in header.states for _, serializer in state.serializers]
    if any(map(_may_hold_subclasses, [header.key_serializer, *serializers])):
        return False
    try:
        entry_layouts(header)
    except UnsupportedError:
        return False
    return True


def _may_hold_subclasses(snapshot: SerializerSnapshot) -> bool:
    listed = bool(snapshot.subclasses or snapshot.values("registered subclass"))
    return listed or any(map(_may_hold_subclasses, snapshot.nested))


def _located(key_serializer: SerializerSnapshot, state: StateMetaInfo) -> EntryLayout:
    try:
        return _layout(key_serializer, state)
    except UnsupportedError as error:
        what = f"entries of the heap's format have no lengths, and {error.what}"
        raise error.recast(UnsupportedError, what, state=state.name, advice=CANONICAL) from None


def _layout(key_serializer: SerializerSnapshot, state: StateMetaInfo) -> EntryLayout:
    key, namespace = compile_key_program(key_serializer), compile_program(namespace_serializer(state))
    if state.kind is StateKind.PRIORITY_QUEUE:
        timer_key = compile_program(serializer_of(state, SerializerKey.VALUE).nested[0])
        timer = Sequence((_TIME, timer_key.tree, namespace.tree))
        return EntryLayout(EntryKind.ELEMENT, _NOTHING, _NOTHING, timer, _NOTHING, ambiguous=False)
    ambiguous = key.fixed_length is None and namespace.fixed_length is None
    value = state.serializer(SerializerKey.VALUE)
    if value is None:
        raise UnsupportedError("the state has no serializer of values")
    kind, parts = content_of(state, value)
    first, second = (*(compile_program(part).tree for part in parts), _NOTHING)[:2]
    if kind is EntryKind.LIST and not takes_bytes(first):
        raise UnsupportedError("the elements of its lists have no bytes, so the data does not limit their number")
    return EntryLayout(kind, namespace.tree, key.tree, first, second, ambiguous)


def content_of(state: StateMetaInfo, value: SerializerSnapshot) -> tuple[EntryKind, tuple[SerializerSnapshot, ...]]:
    """Return the kind of a state's entries, and the serializers of the content, given the serializer of its values.

    Those are the serializers of elements for a list, of keys and values for a map, and `value` itself otherwise.
    Raises `UnsupportedError` for a list or a map with another serializer than Flink's.
    """
    if state.state_type not in ("LIST", "MAP"):
        return EntryKind.VALUE, (value,)
    kind, row, parts = (EntryKind.LIST, LIST, 1) if state.state_type == "LIST" else (EntryKind.MAP, MAP, 2)
    while value.class_name == TTL_AWARE.snapshot and len(value.nested) == 1:
        (value,) = value.nested
    if value.class_name != row.snapshot or len(value.nested) != parts:
        raise UnsupportedError(
            f"the format of a {state.state_type.lower()} state of {type_name(value)} is unknown",
            expected=row.snapshot,
            found=value.class_name,
        )
    return kind, value.nested
