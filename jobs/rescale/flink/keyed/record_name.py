"""Makes the readable name of a record: key, namespace, user key and time, decoded from the bytes of its composite key.

`composite_key` describes the layout. If a serializer is unknown, the name is the bytes in hexadecimal.
"""

from __future__ import annotations

from rescale.flink.encoding.binary import ByteReader
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.heap.heap_entries import entry_serializers
from rescale.flink.keyed.namespaces import namespace_serializer
from rescale.flink.serializers.program import compile_key_program, compile_program
from rescale.flink.serializers.rows.streaming import VOID_NAMESPACE
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.type_tree import TypeTree
from rescale.flink.serializers.value_format import format_bytes, format_value
from rescale.flink.state_meta_info import SerializerKey, StateKind, StateMetaInfo
from rescale.text.errors import RescaleError, UnsupportedError

_SIGN_BIT = 1 << 63


def record_name_parts(header: KeyedHeader | None, state_name: str, key: bytes) -> dict[str, str]:
    """Return the parts of a composite key as text: `key`, and `time`, `namespace`, `user_key` if it has them.

    The argument `key` is the composite key without its key group. Without a header, or if the composite key cannot be
    decoded, the only part is `key_bytes`.
    """
    state = next((state for state in header.states if state.name == state_name), None) if header is not None else None
    if header is None or state is None:
        return {"key_bytes": format_bytes(key)}
    try:
        return _parts(header.key_serializer, state, ByteReader(key))
    except RescaleError:
        return {"key_bytes": format_bytes(key)}


def _parts(key_serializer: SerializerSnapshot, info: StateMetaInfo, reader: ByteReader) -> dict[str, str]:
    is_timer = info.kind is StateKind.PRIORITY_QUEUE
    parts = {}
    if is_timer:  # the sign bit of the time is flipped, so that timers sort by their bytes (TimerSerializer)
        parts["time"] = str(reader.i64() ^ -_SIGN_BIT)
    namespace_snapshot = namespace_serializer(info)
    key, namespace = compile_key_program(key_serializer), compile_program(namespace_snapshot)
    has_lengths = not is_timer and key.fixed_length is None and namespace.fixed_length is None
    begin = reader.position
    parts = {"key": format_value(key.tree, reader), **parts}
    if has_lengths:
        _check_length(reader, reader.position - begin)
    begin = reader.position
    namespace_text = format_value(namespace.tree, reader)
    if namespace_snapshot.class_name != VOID_NAMESPACE.snapshot:
        parts["namespace"] = namespace_text
    if has_lengths:
        _check_length(reader, reader.position - begin)
    if info.state_type == "MAP":
        parts["user_key"] = _user_key(info, reader)
    if reader.remaining:
        raise reader.error("bytes after the key of a record", found=reader.remaining)
    return parts


def _check_length(reader: ByteReader, length: int) -> None:
    """Read a little-endian length. Raises `SnapshotError` if it is not `length`, the size of the part before it."""
    at, size = reader.position, max(1, (length.bit_length() + 7) // 8)
    stored_length = int.from_bytes(reader.raw(size), "little")
    if stored_length != length:
        raise reader.error("a length in a composite key is wrong", at=at, expected=length, found=stored_length)


def _user_key(info: StateMetaInfo, reader: ByteReader) -> str:
    tree = _tree_of_user_key(info)
    return format_value(tree, reader) if tree is not None else format_bytes(reader.raw(reader.remaining))


def _tree_of_user_key(info: StateMetaInfo) -> TypeTree | None:
    value_serializer = info.serializer(SerializerKey.VALUE)
    if value_serializer is None:
        return None
    try:
        return compile_program(entry_serializers(info, value_serializer)[1][0]).tree
    except UnsupportedError:
        return None
