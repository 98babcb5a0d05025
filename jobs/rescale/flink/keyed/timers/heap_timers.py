"""Timers in raw keyed state: the format of timers on the heap (`HeapPriorityQueueSet`) in checkpoints of RocksDB.

    Key group (`InternalTimerServiceSerializationProxy`, `InternalTimersSnapshotReaderWriters`):
    F1CD859F  version:i32 = 2  number of services:i32
    { name:utf keySerializer namespaceSerializer  events:i32 { timer }*  processing:i32 { timer }* }*
    timer: key namespace time:i64

In canonical state, a timer service has two states, `_timer_state/processing_NAME` and `_timer_state/event_NAME`. There,
a timer is the key of a record, with the time in front and its sign bit flipped (`TimerSerializer`). The value is empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.namespaces import serializer_of
from rescale.flink.serializers.layouts import COMPOSITE_MAGIC
from rescale.flink.serializers.program import Program, compile_key_program, compile_program
from rescale.flink.serializers.reading import read_snapshot, snapshot_bytes, write_versioned
from rescale.flink.serializers.rows.streaming import TIMER
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.snapshot_body import NESTED_MAGIC, NESTED_VERSION
from rescale.flink.serializers.type_tree import Fixed, Sequence
from rescale.flink.state_meta_info import SerializerKey, StateKind, StateMetaInfo, read_state_meta_info
from rescale.text.errors import RescaleError, UnsupportedError

BLOCK_HEAD = bytes.fromhex("f1cd859f00000002")
"""Magic of `PostVersionedIOReadableWritable`, and the only version that Flink writes since 1.8."""

EMPTY_BLOCK_SIZE = len(BLOCK_HEAD) + 4
"""Size in bytes of the block of a key group without timer services; other blocks are larger."""

TIME_SIZE = 8

_PROCESSING_PREFIX, _EVENT_PREFIX = "_timer_state/processing_", "_timer_state/event_"
_OUTER_VERSION = 2
"""Version of `TimerSerializerSnapshot`."""


class HiddenTimerError(UnsupportedError):
    """A timer contains an object of a subclass of a POJO. Only Flink knows where such a timer ends."""


@dataclass(frozen=True)
class TimerService:
    """A named set of timers of an operator (`InternalTimerServiceImpl`)."""

    name: str
    key_serializer: SerializerSnapshot
    namespace_serializer: SerializerSnapshot

    @cached_property
    def timer_program(self) -> Program:
        """Program that finds the end of a timer in a block."""
        fields = (
            compile_key_program(self.key_serializer).tree,
            compile_program(self.namespace_serializer).tree,
            Fixed(TIME_SIZE),
        )
        return Program("timer", Sequence(fields))

    @cached_property
    def serializer_bytes(self) -> bytes:
        """Bytes of both serializers, which follow the name of the service."""
        return snapshot_bytes(self.key_serializer) + snapshot_bytes(self.namespace_serializer)

    @property
    def states(self) -> tuple[StateMetaInfo, StateMetaInfo]:
        """Canonical states of the service: timers in processing time, and timers in event time."""
        return _timer_state(_PROCESSING_PREFIX + self.name, self), _timer_state(_EVENT_PREFIX + self.name, self)


def read_services(block: bytes, kryo_version: int) -> tuple[TimerService, ...] | None:
    """Return the timer services in the block of a key group; None if it is unreadable, or another kind of block.

    `kryo_version` is the major version of the writer's Kryo.

    Raises `HiddenTimerError` for a block whose services cannot be listed because a timer in it has no known end.
    """
    if not block.startswith(BLOCK_HEAD):
        return None
    reader = ByteReader(block, position=len(BLOCK_HEAD))
    try:
        services = tuple(_read_service(reader, kryo_version) for _ in range(reader.count(8)))
    except HiddenTimerError:
        raise
    except RescaleError:
        return None
    return services if not reader.remaining and len({service.name for service in services}) == len(services) else None


def timer_header(services: Iterable[TimerService], *, is_compressed: bool = False) -> KeyedHeader:
    """Return the header of canonical state with the timers of these services; at least one service is needed."""
    all_services = tuple(services)
    return KeyedHeader(
        is_compressed,
        all_services[0].key_serializer,
        tuple(state for service in all_services for state in service.states),
    )


def services_of(header: KeyedHeader) -> tuple[TimerService, ...]:
    """Return the services of a header that `timer_header` made."""
    timer_serializers = [(state.name, serializer_of(state, SerializerKey.VALUE)) for state in header.states[::2]]
    return tuple(
        TimerService(name.removeprefix(_PROCESSING_PREFIX), *timer_serializer.nested)
        for name, timer_serializer in timer_serializers
    )


def _read_service(reader: ByteReader, kryo_version: int) -> TimerService:
    name, *serializers = reader.utf(), read_snapshot(reader), read_snapshot(reader)
    service = TimerService(name, *(serializer.with_kryo(kryo_version) for serializer in serializers))
    timer_program = service.timer_program
    for _ in ("events", "processing"):
        timer_count = reader.count(TIME_SIZE)
        if timer_count:
            reader.raw(_end_of_timers(timer_program, reader, timer_count) - reader.position)
    return service


def _end_of_timers(program: Program, reader: ByteReader, timer_count: int) -> int:
    import numpy as np  # planning seldom needs NumPy

    from rescale.flink.keys.java_hash import ERROR_TEXTS, SUBCLASS, walk_values

    ends, error_text = walk_values(program, np.frombuffer(reader.data, np.uint8), reader.position, timer_count)
    if error_text == ERROR_TEXTS[SUBCLASS]:
        raise HiddenTimerError(f"a timer contains {error_text}")
    if len(ends) < timer_count:
        raise reader.error(f"a timer cannot be read: {error_text}")
    return int(ends[-1])


def _timer_state(name: str, service: TimerService) -> StateMetaInfo:
    """Return the description that `RegisteredPriorityQueueStateBackendMetaInfo` writes for timers."""
    snapshot_body = ByteWriter()
    for number in (COMPOSITE_MAGIC, _OUTER_VERSION, NESTED_MAGIC, NESTED_VERSION, 2):
        snapshot_body.i32(number)
    snapshot_body.raw(service.serializer_bytes)
    out = ByteWriter().utf(name).i32(StateKind.PRIORITY_QUEUE).i32(0)
    out.i32(1).utf(SerializerKey.VALUE)
    write_versioned(out, SerializerSnapshot(TIMER.snapshot, max(TIMER.versions), snapshot_body.bytes()))
    return read_state_meta_info(ByteReader(out.bytes()))
