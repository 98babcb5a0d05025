"""Layout of the entries of a heap state (`StateTable`, `HeapMapState`), with the types that tell where an entry ends.

    entry: namespace key value        in a priority queue: the element alone

Entries have no lengths, so the end of an entry is known only if the types of all its parts are known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.namespaces import namespace_serializer, serializer_of
from rescale.flink.serializers.program import compile_key_program, compile_program
from rescale.flink.serializers.reading import type_name
from rescale.flink.serializers.rows.core import LIST, MAP
from rescale.flink.serializers.rows.streaming import TTL_AWARE
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.type_tree import Fixed, Nullable, Repeat, Sequence, TypeTree, is_never_empty
from rescale.flink.state_meta_info import SerializerKey, StateKind, StateMetaInfo
from rescale.text.errors import UnsupportedError

_TIME = Fixed(8)
_NO_BYTES = Fixed(0)


class EntryKind(IntEnum):
    """Content of an entry: the codes of `heap_loop`."""

    VALUE = 0
    LIST = 1
    MAP = 2
    QUEUE_ELEMENT = 3


@dataclass(frozen=True)
class EntryLayout:
    """Layout of the entries of a state.

    `first_tree` is the type of the value, a list's element, a map's user key, or a queue's element, and `second_tree`
    that of a map's value. If `has_lengths`, neither the key nor the namespace has a fixed length, so a composite key
    contains their lengths.
    """

    kind: EntryKind
    namespace_tree: TypeTree
    key_tree: TypeTree
    first_tree: TypeTree
    second_tree: TypeTree
    has_lengths: bool

    @property
    def as_whole_entries(self) -> EntryLayout:
        """Layout in which a list or a map is a single value, as its serializer writes it."""
        if self.kind is EntryKind.LIST:
            return replace(self, kind=EntryKind.VALUE, first_tree=Repeat((self.first_tree,)))
        if self.kind is EntryKind.MAP:
            items = Repeat((self.first_tree, Nullable(self.second_tree)), folds=False)
            return replace(self, kind=EntryKind.VALUE, first_tree=items, second_tree=_NO_BYTES)
        return self


@lru_cache(maxsize=64)
def entry_layouts(header: KeyedHeader) -> tuple[EntryLayout, ...]:
    """Return the layout of the entries of each state in a header, by state id.

    Raises `UnsupportedError`, which names the state, if the end of a state's entries is unknown.
    """
    return tuple(_layout_of(header.key_serializer, state) for state in header.states)


def can_delimit_entries(header: KeyedHeader | None) -> bool:
    """Whether the end of every entry of all states is known.

    The end is unknown if a POJO serializer lists subclasses, because objects of a subclass have no known end.
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
    lists_subclasses = bool(snapshot.subclasses or snapshot.values("registered subclass"))
    return lists_subclasses or any(map(_may_hold_subclasses, snapshot.nested))


def _layout_of(key_serializer: SerializerSnapshot, state: StateMetaInfo) -> EntryLayout:
    try:
        return _layout(key_serializer, state)
    except UnsupportedError as error:
        what = f"entries of the heap's format have no lengths, and {error.what}"
        raise error.recast(UnsupportedError, what, state=state.name, advice=RESCALE_CANONICAL_SAVEPOINT) from None


def _layout(key_serializer: SerializerSnapshot, state: StateMetaInfo) -> EntryLayout:
    key, namespace = compile_key_program(key_serializer), compile_program(namespace_serializer(state))
    if state.kind is StateKind.PRIORITY_QUEUE:
        timer_key = compile_program(serializer_of(state, SerializerKey.VALUE).nested[0])
        timer = Sequence((_TIME, timer_key.tree, namespace.tree))
        return EntryLayout(EntryKind.QUEUE_ELEMENT, _NO_BYTES, _NO_BYTES, timer, _NO_BYTES, has_lengths=False)
    has_lengths = key.fixed_length is None and namespace.fixed_length is None
    value_serializer = state.serializer(SerializerKey.VALUE)
    if value_serializer is None:
        raise UnsupportedError("the state has no value serializer")
    kind, serializers = entry_serializers(state, value_serializer)
    first, second = (*(compile_program(serializer).tree for serializer in serializers), _NO_BYTES)[:2]
    if kind is EntryKind.LIST and not is_never_empty(first):
        raise UnsupportedError("the elements of its lists have no bytes, so a damaged count would go unnoticed")
    return EntryLayout(kind, namespace.tree, key.tree, first, second, has_lengths)


def entry_serializers(
    state: StateMetaInfo, value_serializer: SerializerSnapshot
) -> tuple[EntryKind, tuple[SerializerSnapshot, ...]]:
    """Return the kind of a state's entries, and the serializers of their content.

    A list has the serializer of its elements, a map those of its user keys and its values, any other state that of its
    values. Raises `UnsupportedError` for a list or a map whose serializer is not Flink's own.
    """
    if state.state_type not in ("LIST", "MAP"):
        return EntryKind.VALUE, (value_serializer,)
    kind, row, serializer_count = (EntryKind.LIST, LIST, 1) if state.state_type == "LIST" else (EntryKind.MAP, MAP, 2)
    while value_serializer.class_name == TTL_AWARE.snapshot and len(value_serializer.nested) == 1:
        (value_serializer,) = value_serializer.nested
    if value_serializer.class_name != row.snapshot or len(value_serializer.nested) != serializer_count:
        raise UnsupportedError(
            f"the format of a {state.state_type.lower()} state of {type_name(value_serializer)} is unknown",
            expected=row.snapshot,
            found=value_serializer.class_name,
        )
    return kind, value_serializer.nested
