"""What the entries of a heap state hold, and with which programs they are taken apart (`StateTable`, `HeapMapState`).

    entry: namespace key value        of a priority queue: its element alone

Nothing says how long anything is, so where an entry ends is known only with the programs of all its serializers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache

from rescale.errors import UnsupportedError
from rescale.flink.advice import CANONICAL
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.namespaces import namespace_serializer, serializer_of
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.reading import type_name
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.type_tree import Fixed, Nullable, Repeat, Sequence, TypeTree, takes_bytes
from rescale.flink.state_meta_info import SerializerKey, StateKind, StateMetaInfo

_LIST = "org.apache.flink.api.common.typeutils.base.ListSerializerSnapshot"
_MAP = "org.apache.flink.api.common.typeutils.base.MapSerializerSnapshot"
_TTL_AWARE = "org.apache.flink.runtime.state.ttl.TtlAwareSerializerSnapshot"
_TIME = Fixed(8)
_NOTHING = Fixed(0)


class EntryKind(IntEnum):
    """By the numbers of `heap_loop`."""

    VALUE = 0
    LIST = 1
    MAP = 2
    ELEMENT = 3


@dataclass(frozen=True)
class EntryLayout:
    """`first` is the value, an element of the list, a key of the map, or the queue's element; `second` a map's value.

    `ambiguous`: neither key nor namespace have a fixed length, so that a composite key holds theirs.
    """

    kind: EntryKind
    namespace: TypeTree
    key: TypeTree
    first: TypeTree
    second: TypeTree
    ambiguous: bool

    @property
    def whole(self) -> EntryLayout:
        """Where a list or a map is taken for the value that it is to its serializer."""
        if self.kind is EntryKind.LIST:
            return replace(self, kind=EntryKind.VALUE, first=Repeat((self.first,)))
        if self.kind is EntryKind.MAP:
            items = Repeat((self.first, Nullable(self.second)), folds=False)
            return replace(self, kind=EntryKind.VALUE, first=items, second=_NOTHING)
        return self


@lru_cache(maxsize=64)
def entry_layouts(header: KeyedHeader) -> tuple[EntryLayout, ...]:
    """By state id; `UnsupportedError` names the state whose entries cannot be told apart."""
    return tuple(_located(header.key_serializer, state) for state in header.states)


def tells_entries(header: KeyedHeader | None) -> bool:
    """Whether the entries of all states can be told apart, whatever they hold.

    An object of a subclass of its POJO cannot be followed, and where there are any they are listed.
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
        raise UnsupportedError(
            f"the heap's own format does not tell where an entry ends, and {error.what}",
            state=state.name,
            expected=error.expected,
            found=error.found,
            advice=CANONICAL,
        ) from None


def _layout(key_serializer: SerializerSnapshot, state: StateMetaInfo) -> EntryLayout:
    key, namespace = compile_program(key_serializer), compile_program(namespace_serializer(state))
    if state.kind is StateKind.PRIORITY_QUEUE:
        timer_key = compile_program(serializer_of(state, SerializerKey.VALUE).nested[0])
        timer = Sequence((_TIME, timer_key.tree, namespace.tree))
        return EntryLayout(EntryKind.ELEMENT, _NOTHING, _NOTHING, timer, _NOTHING, ambiguous=False)
    ambiguous = key.fixed_length is None and namespace.fixed_length is None
    value = state.serializer(SerializerKey.VALUE)
    if value is None:
        raise UnsupportedError("its description has no serializer of values")
    kind, parts = content_of(state, value)
    first, second = (*(compile_program(part).tree for part in parts), _NOTHING)[:2]
    if kind is EntryKind.LIST and not takes_bytes(first):
        raise UnsupportedError("the elements of its lists take no bytes, of which there can be any number")
    return EntryLayout(kind, namespace.tree, key.tree, first, second, ambiguous)


def content_of(state: StateMetaInfo, value: SerializerSnapshot) -> tuple[EntryKind, tuple[SerializerSnapshot, ...]]:
    """Of a list the serializer of its elements, of a map those of its keys and values; of all else `value` itself."""
    if state.state_type not in ("LIST", "MAP"):
        return EntryKind.VALUE, (value,)
    kind, expected, parts = (EntryKind.LIST, _LIST, 1) if state.state_type == "LIST" else (EntryKind.MAP, _MAP, 2)
    while value.class_name == _TTL_AWARE and len(value.nested) == 1:
        (value,) = value.nested
    if value.class_name != expected or len(value.nested) != parts:
        raise UnsupportedError(
            f"how a {state.state_type.lower()} state of {type_name(value)} is written is not known",
            expected=expected,
            found=value.class_name,
        )
    return kind, value.nested
