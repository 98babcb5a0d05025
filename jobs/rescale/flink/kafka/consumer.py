"""What a `FlinkKafkaConsumer` leaves in a snapshot: a union list of partitions, each with the last offset emitted.

It was the Kafka source of Flink 1.x, up to connector 3.4. Each element is a `Tuple2` of a `KafkaTopicPartition`, which
Kryo 2.24 writes with its fields in the order of their names, and a long. The field `cachedHash` follows from the other
two, which tells whether an element was understood.
"""

from __future__ import annotations

from rescale.flink.encoding.binary import ByteReader
from rescale.flink.kafka.position import Position, StartAt, checked_partition
from rescale.flink.redistribution import java_string_hash

OFFSETS_STATE = "topic-partition-offset-states"
"""`FlinkKafkaConsumerBase.OFFSETS_STATE_NAME`."""

SENTINELS = {
    -915623761776: StartAt.UNSET,
    -915623761775: StartAt.EARLIEST,
    -915623761774: StartAt.LATEST,
    -915623761773: StartAt.COMMITTED,
}
"""`KafkaTopicPartitionStateSentinel`."""

NEW_OBJECT = 1
"""What `MapReferenceResolver` has Kryo write in front of an object that it did not write before."""


def read_consumer_element(data: bytes) -> Position:
    """`SnapshotError` if it is not what `FlinkKafkaConsumerBase.createStateSerializer` writes."""
    reader = ByteReader(data)
    at = reader.position
    reader.packed()  # the class, by a number that depends on what the job registered
    _new_object(reader)
    cached_hash, partition = _zigzag(reader), _zigzag(reader)
    _new_object(reader)
    topic = _string(reader)
    expected = _signed(31 * java_string_hash(topic) + partition)
    if cached_hash != expected:
        raise reader.error("not a KafkaTopicPartition: its hash is wrong", at=at, expected=expected, found=cached_hash)
    offset = reader.i64()
    if reader.remaining or (offset < -1 and offset not in SENTINELS):
        raise reader.error("not the offset of a Kafka partition", found=offset)
    # Before the first record that is emitted, the offset of a partition that began at 0 is -1.
    return Position(checked_partition(reader, at, topic, partition), SENTINELS.get(offset, offset + 1))


def _new_object(reader: ByteReader) -> None:
    at, marker = reader.position, reader.u8()
    if marker != NEW_OBJECT:
        raise reader.error("not an object that Kryo wrote", at=at, expected=NEW_OBJECT, found=marker)


def _zigzag(reader: ByteReader) -> int:
    number = reader.packed() & 0xFFFFFFFF
    return _signed(number >> 1 ^ -(number & 1))


def _signed(number: int) -> int:
    low = number & 0xFFFFFFFF
    return low - (1 << 32) if low >= 1 << 31 else low


def _string(reader: ByteReader) -> str:
    """`Input.readString`, of ASCII: 2 to 63 characters end with one that has the high bit, others have a length."""
    at, first = reader.position, reader.u8()
    if first < 0x80:
        characters = bytearray((first,))
        while characters[-1] < 0x80:
            characters.append(reader.u8())
        characters[-1] &= 0x7F
        return characters.decode("ascii")
    length = first & 0x3F
    if first & 0x40:
        length |= reader.packed() << 6
    text = reader.raw(max(0, length - 1))
    if not text.isascii():
        raise reader.error("not the name of a Kafka topic", at=at, found=text)
    return text.decode("ascii")
