"""State of a `FlinkKafkaConsumer`: a union list of partitions, each with the last emitted offset.

`FlinkKafkaConsumer` was the Kafka source of Flink 1.x, up to connector 3.4. Each element is a `Tuple2` of a
`KafkaTopicPartition` and a long. Kryo 2.24 writes the fields of the `KafkaTopicPartition` in the order of their names:
`cachedHash`, `partition`, `topic`. The other two determine `cachedHash`, so a wrong `cachedHash` shows that the bytes
are not a `KafkaTopicPartition`.
"""

from __future__ import annotations

from rescale.flink.encoding.binary import ByteReader
from rescale.flink.kafka.position import Position, StartAt, checked_partition
from rescale.flink.keys.java_strings import java_string_hash

OFFSETS_STATE = "topic-partition-offset-states"
"""`FlinkKafkaConsumerBase.OFFSETS_STATE_NAME`."""

START_BY_SENTINEL = {
    -915623761776: StartAt.UNSET,
    -915623761775: StartAt.EARLIEST,
    -915623761774: StartAt.LATEST,
    -915623761773: StartAt.COMMITTED,
}
"""Start of a partition without an offset, by the number in place of the offset (`KafkaTopicPartitionStateSentinel`)."""

NEW_OBJECT_MARK = 1
"""Byte that Kryo writes in front of an object on its first occurrence (`MapReferenceResolver`)."""


def read_consumer_element(data: bytes) -> Position:
    """Return the position in an element that the serializer of `FlinkKafkaConsumerBase.createStateSerializer` wrote.

    Raises `SnapshotError` for other bytes.
    """
    reader = ByteReader(data)
    at = reader.position
    reader.packed()  # Kryo's id of the class, which depends on the job's registrations
    _check_new_object(reader)
    cached_hash, partition = _read_zigzag(reader), _read_zigzag(reader)
    _check_new_object(reader)
    topic = _read_string(reader)
    expected_hash = _as_i32(31 * java_string_hash(topic) + partition)
    if cached_hash != expected_hash:
        raise reader.error(
            "not a KafkaTopicPartition: its cachedHash is wrong", at=at, expected=expected_hash, found=cached_hash
        )
    offset = reader.i64()
    if reader.remaining or (offset < -1 and offset not in START_BY_SENTINEL):
        raise reader.error("not the offset of a Kafka partition", found=offset)
    # A partition that began at offset 0 has offset -1 until its first record is emitted.
    return Position(checked_partition(reader, at, topic, partition), START_BY_SENTINEL.get(offset, offset + 1))


def _check_new_object(reader: ByteReader) -> None:
    at, mark = reader.position, reader.u8()
    if mark != NEW_OBJECT_MARK:
        raise reader.error("not an object that Kryo wrote", at=at, expected=NEW_OBJECT_MARK, found=mark)


def _read_zigzag(reader: ByteReader) -> int:
    number = reader.packed() & 0xFFFFFFFF
    return _as_i32(number >> 1 ^ -(number & 1))


def _as_i32(number: int) -> int:
    unsigned = number & 0xFFFFFFFF
    return unsigned - (1 << 32) if unsigned >= 1 << 31 else unsigned


def _read_string(reader: ByteReader) -> str:
    """Return an ASCII string, as Kryo's `Input.readString` does.

    In a string of 2 to 63 characters, the high bit marks the last character. Other strings have a length in front.
    """
    at, first_byte = reader.position, reader.u8()
    if first_byte < 0x80:
        characters = bytearray((first_byte,))
        while characters[-1] < 0x80:
            characters.append(reader.u8())
        characters[-1] &= 0x7F
        return characters.decode("ascii")
    length = first_byte & 0x3F
    if first_byte & 0x40:
        length |= reader.packed() << 6
    encoded = reader.raw(max(0, length - 1))
    if not encoded.isascii():
        raise reader.error("not the name of a Kafka topic", at=at, found=encoded)
    return encoded.decode("ascii")
