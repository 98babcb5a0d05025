"""Edits the positions in the union list of a `FlinkKafkaConsumer`.

Kryo's id of the class `KafkaTopicPartition` depends on the job's registrations, so an edit copies the id.
"""

from __future__ import annotations

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.kafka.consumer import NEW_OBJECT_MARK, START_BY_SENTINEL, read_consumer_element
from rescale.flink.kafka.edited_source import Edit
from rescale.flink.kafka.position import Position, StartAt
from rescale.flink.keys.java_strings import java_string_hash

_SENTINEL_BY_START = {start: number for number, start in START_BY_SENTINEL.items()}


def edited_consumer_element(element: bytes, edit: Edit) -> bytes | None:
    """Return the element after the edit; None if the edit drops it. Raises the errors of `read_consumer_element`."""
    position = read_consumer_element(element)
    new_position = edit(position)
    return (
        element if new_position == position else None if new_position is None else _moved_element(element, new_position)
    )


def _moved_element(element: bytes, new_position: Position) -> bytes:
    """Return `element` with another position: a `Tuple2` of a `KafkaTopicPartition` (Kryo 2.24) and an offset."""
    reader = ByteReader(element)
    reader.packed()
    topic, partition = new_position.partition
    out = ByteWriter().raw(element[: reader.position])
    out.u8(NEW_OBJECT_MARK).raw(_zigzag_bytes(31 * java_string_hash(topic) + partition)).raw(_zigzag_bytes(partition))
    out.u8(NEW_OBJECT_MARK).raw(_string_bytes(topic))
    return out.i64(
        _SENTINEL_BY_START[new_position.next] if isinstance(new_position.next, StartAt) else new_position.next - 1
    ).bytes()


def _zigzag_bytes(number: int) -> bytes:
    """Return the low 32 bits of a number as Kryo's `Output.writeInt(value, false)` writes them."""
    unsigned = number & 0xFFFFFFFF
    return _varint_bytes((unsigned << 1 ^ (0xFFFFFFFF if unsigned >> 31 else 0)) & 0xFFFFFFFF)


def _varint_bytes(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def _string_bytes(text: str) -> bytes:
    """Return an ASCII string as Kryo's `Output.writeString` writes it; see `consumer._read_string`."""
    if 1 < len(text) < 64:
        return text[:-1].encode("ascii") + bytes((ord(text[-1]) | 0x80,))
    length = len(text) + 1
    head = bytes((0x80 | length,)) if length < 0x40 else bytes((0xC0 | length & 0x3F,)) + _varint_bytes(length >> 6)
    return head + text.encode("ascii")
