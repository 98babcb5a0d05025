"""Timers as raw keyed state: so checkpoints of RocksDB hold those that are kept on the heap (`HeapPriorityQueueSet`).

    Key group (`InternalTimerServiceSerializationProxy`, `InternalTimersSnapshotReaderWriters`):
    F1CD859F  version:i32 = 2  number of services:i32
    { name:utf keySerializer namespaceSerializer  events:i32 { timer }*  processing:i32 { timer }* }*
    timer: key namespace time:i64

In canonical state a service is two states, `_timer_state/processing_NAME` and `_timer_state/event_NAME`. A timer is the
key of a record there, with the time in front and its sign flipped (`TimerSerializer`); its value has no bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from rescale.errors import RescaleError
from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.namespaces import TIMER_SNAPSHOT, serializer_of
from rescale.flink.serializers.layouts import COMPOSITE_MAGIC
from rescale.flink.serializers.program import Program, compile_program
from rescale.flink.serializers.reading import read_snapshot, write_snapshot, write_versioned
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.snapshot_body import NESTED_MAGIC, NESTED_VERSION
from rescale.flink.serializers.type_tree import Fixed, Sequence
from rescale.flink.state_meta_info import SerializerKey, StateKind, StateMetaInfo, read_state_meta_info

BLOCK_HEAD = bytes.fromhex("f1cd859f00000002")
"""`PostVersionedIOReadableWritable`, and the only version that Flink has written since 1.8."""

EMPTY_BLOCK_SIZE = len(BLOCK_HEAD) + 4
"""A key group of an operator without services; any other is larger."""

TIME_SIZE = 8

_PROCESSING, _EVENT = "_timer_state/processing_", "_timer_state/event_"
_SNAPSHOT_VERSION, _OUTER_VERSION = 3, 2
"""`CompositeTypeSerializerSnapshot`, `TimerSerializerSnapshot`."""


@dataclass(frozen=True)
class TimerService:
    """A set of timers of one operator (`InternalTimerServiceImpl`)."""

    name: str
    key: SerializerSnapshot
    namespace: SerializerSnapshot

    @cached_property
    def program(self) -> Program:
        """Measures a timer as it lies in a block."""
        fields = (compile_program(self.key).tree, compile_program(self.namespace).tree, Fixed(TIME_SIZE))
        return Program("timer", Sequence(fields))

    @cached_property
    def serializers(self) -> bytes:
        """What stands behind the name."""
        out = ByteWriter()
        write_snapshot(out, self.key)
        write_snapshot(out, self.namespace)
        return out.bytes()

    @property
    def states(self) -> tuple[StateMetaInfo, StateMetaInfo]:
        """Of the timers in processing time and in event time."""
        return _state(_PROCESSING + self.name, self), _state(_EVENT + self.name, self)


def read_services(block: bytes) -> tuple[TimerService, ...] | None:
    """The services of the key group that `block` is; None if it is anything else than timers that can be read."""
    if not block.startswith(BLOCK_HEAD):
        return None
    reader = ByteReader(block, position=len(BLOCK_HEAD))
    try:
        services = tuple(_read_service(reader) for _ in range(reader.count(8)))
    except RescaleError:
        return None
    return services if not reader.remaining and len({service.name for service in services}) == len(services) else None


def timer_header(services: Iterable[TimerService], *, compressed: bool = False) -> KeyedHeader:
    """The header of canonical state that holds the timers of these services, of which there is one at least."""
    listed = tuple(services)
    return KeyedHeader(compressed, listed[0].key, tuple(state for service in listed for state in service.states))


def services_of(header: KeyedHeader) -> tuple[TimerService, ...]:
    """The mirror of `timer_header`."""
    elements = [(state.name, serializer_of(state, SerializerKey.VALUE)) for state in header.states[::2]]
    return tuple(TimerService(name.removeprefix(_PROCESSING), *element.nested) for name, element in elements)


def _read_service(reader: ByteReader) -> TimerService:
    service = TimerService(reader.utf(), read_snapshot(reader), read_snapshot(reader))
    program = service.program
    for _ in ("events", "processing"):
        count = reader.count(TIME_SIZE)
        if count:
            reader.raw(_end_of_timers(program, reader, count) - reader.position)
    return service


def _end_of_timers(program: Program, reader: ByteReader, count: int) -> int:
    import numpy as np  # who plans seldom needs it

    from rescale.flink.keys.java_hash import walk_row

    ends, wrong = walk_row(program, np.frombuffer(reader.data, np.uint8), reader.position, count)
    if len(ends) < count:
        raise reader.error(f"not a timer: {wrong}")
    return int(ends[-1])


def _state(name: str, service: TimerService) -> StateMetaInfo:
    """As `RegisteredPriorityQueueStateBackendMetaInfo` describes itself."""
    body = ByteWriter()
    for number in (COMPOSITE_MAGIC, _OUTER_VERSION, NESTED_MAGIC, NESTED_VERSION, 2):
        body.i32(number)
    body.raw(service.serializers)
    out = ByteWriter()
    out.utf(name)
    out.i32(StateKind.PRIORITY_QUEUE)
    out.i32(0)
    out.i32(1)
    out.utf(SerializerKey.VALUE)
    write_versioned(out, SerializerSnapshot(TIMER_SNAPSHOT, _SNAPSHOT_VERSION, body.bytes()))
    return read_state_meta_info(ByteReader(out.bytes()))
