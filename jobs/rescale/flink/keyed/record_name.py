"""What a record is called: its key, its namespace, the key in its map, or its time, out of the bytes of its key.

The layout is that of `composite_key`, here for one record. What a serializer that is not known wrote cannot be taken
apart; then the bytes are the name.
"""

from __future__ import annotations

from rescale.errors import RescaleError, UnsupportedError
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.heap.heap_entries import content_of
from rescale.flink.keyed.namespaces import namespace_serializer
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.reading import type_name
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.type_tree import TypeTree
from rescale.flink.serializers.value_words import bytes_in_words, in_words
from rescale.flink.state_meta_info import SerializerKey, StateKind, StateMetaInfo

_SIGN_BIT = 1 << 63
_VOID_NAMESPACE = "VoidNamespace"


def name_record(header: KeyedHeader | None, state: str, key: bytes) -> dict[str, str]:
    """What stands in `key`, by what it is: `key`, and `time`, `namespace`, `user_key` as far as there are such.

    Without its header, or where it cannot be told apart: `key_bytes`.
    """
    info = next((info for info in header.states if info.name == state), None) if header is not None else None
    if header is None or info is None:
        return {"key_bytes": bytes_in_words(key)}
    try:
        return _parts(header.key_serializer, info, ByteReader(key))
    except RescaleError:
        return {"key_bytes": bytes_in_words(key)}


def _parts(key_serializer: SerializerSnapshot, info: StateMetaInfo, reader: ByteReader) -> dict[str, str]:
    is_timer = info.kind is StateKind.PRIORITY_QUEUE
    parts = {}
    if is_timer:  # the sign is flipped, so that timers sort by their bytes (TimerSerializer)
        parts["time"] = str(reader.i64() ^ -_SIGN_BIT)
    namespace_snapshot = namespace_serializer(info)
    key, namespace = compile_program(key_serializer), compile_program(namespace_snapshot)
    has_lengths = not is_timer and key.fixed_length is None and namespace.fixed_length is None
    begin = reader.position
    parts = {"key": in_words(key.tree, reader), **parts}
    if has_lengths:
        _take_length(reader, reader.position - begin)
    begin = reader.position
    words = in_words(namespace.tree, reader)
    if type_name(namespace_snapshot) != _VOID_NAMESPACE:
        parts["namespace"] = words
    if has_lengths:
        _take_length(reader, reader.position - begin)
    if info.state_type == "MAP":
        parts["user_key"] = _user_key(info, reader)
    if reader.remaining:
        raise reader.error("bytes behind the key of a record", found=reader.remaining)
    return parts


def _take_length(reader: ByteReader, length: int) -> None:
    """The length of what was just read, lowest byte first."""
    at, size = reader.position, max(1, (length.bit_length() + 7) // 8)
    found = int.from_bytes(reader.raw(size), "little")
    if found != length:
        raise reader.error("another length than that of what is in front", at=at, expected=length, found=found)


def _user_key(info: StateMetaInfo, reader: ByteReader) -> str:
    tree = _tree_of_user_key(info)
    return in_words(tree, reader) if tree is not None else bytes_in_words(reader.raw(reader.remaining))


def _tree_of_user_key(info: StateMetaInfo) -> TypeTree | None:
    content = info.serializer(SerializerKey.VALUE)
    try:
        return compile_program(content_of(info, content)[1][0]).tree if content is not None else None
    except UnsupportedError:
        return None
