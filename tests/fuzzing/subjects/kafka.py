"""Offsets of Kafka: splits, enumerators, and elements of the old consumer."""

from __future__ import annotations

from collections.abc import Iterator

from fuzzing.subject import Subject
from rescale.flink.kafka.consumer import read_consumer_element
from rescale.flink.kafka.dynamic_source import is_dynamic_enumerator, is_dynamic_split
from rescale.flink.kafka.hybrid_source import is_hybrid_enumerator, is_hybrid_split
from rescale.flink.kafka.source import UnknownVersionError, read_enumerator, read_reader_element, read_split
from rescale.flink.metadata.handles import InlineStream
from rescale.snapshot.reading.opening import open_snapshot
from support.kafka_state import (
    consumer_element,
    dynamic_element,
    dynamic_enumerator,
    enumerator,
    hybrid_element,
    hybrid_enumerator,
    reader_element,
)
from support.snapshots import FIXTURES, content

_SPLIT, _ENUMERATOR, _CONSUMER = range(3)


def _seeds() -> Iterator[bytes]:
    yield bytes((_SPLIT,)) + reader_element("topic", 3, 17, 99)
    yield bytes((_SPLIT,)) + dynamic_element("cluster", "topic", 0, 5)
    yield bytes((_ENUMERATOR,)) + enumerator([("topic", 0, 0), ("other", 1, 1)])
    yield bytes((_SPLIT,)) + hybrid_element("topic", 0, 5)
    yield bytes((_ENUMERATOR,)) + hybrid_enumerator([("topic", 0, 0)])
    yield bytes((_ENUMERATOR,)) + dynamic_enumerator("cluster", "topic", 2)
    yield bytes((_CONSUMER,)) + consumer_element("topic", 1, 77)
    yield bytes((_CONSUMER,)) + consumer_element("a" * 70, 1, 77)
    for path in sorted((FIXTURES / "kafka").glob("*/**/_metadata")):
        snapshot = open_snapshot(str(path.parent))
        for operator in snapshot.operators:
            coordinator = operator.entry.coordinator
            if isinstance(coordinator, InlineStream):
                yield bytes((_ENUMERATOR,)) + coordinator.data
            for stream in operator.element_streams:
                for state in stream.states:
                    kind = _SPLIT if state.name == "SourceReaderState" else _CONSUMER
                    for element in state.elements[:2]:
                        yield bytes((kind,)) + content(snapshot, element)


def _look(data: bytes) -> None:
    kind, data = data[0] % 3 if data else 0, data[1:]
    if kind == _SPLIT:
        split = read_reader_element(data)
        is_dynamic_split(split)
        is_hybrid_split(split)
        try:
            assert read_split(split).partition.topic is not None
        except UnknownVersionError:
            return
    elif kind == _ENUMERATOR:
        is_dynamic_enumerator(data)
        is_hybrid_enumerator(data)
        try:
            enumerator = read_enumerator(data)
        except UnknownVersionError:
            return
        assert len(enumerator.partitions) <= len(enumerator.assigned) + len(enumerator.unassigned)
    else:
        position = read_consumer_element(data)
        assert position.partition.partition >= 0


SUBJECT = Subject(_seeds, _look)
