"""Changes over records, compared with a slow twin that holds all state and applies one change after the other."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescale.flink.key_groups import key_group_of_hash
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.changelog.change_layouts import change_layout
from rescale.flink.keyed.changelog.logged_states import Operation
from rescale.flink.keyed.changelog.overlay import Overlay
from rescale.flink.keyed.changelog.parsed_changes import RawChange
from rescale.flink.keyed.header import KeyedHeader, read_keyed_header
from rescale.text.errors import SnapshotError, UnsupportedError
from support.canonical import Record
from support.composite import composite_key, records_in_buffer, timer, timers
from support.examples import examples
from support.heap import LONG, TEXT, HeapState
from support.java_values import JavaType
from support.snapshot_bytes import BASE, STRING, composite, i32, keyed_header, keyed_state, list_of, snapshot, utf

MAX_PARALLELISM = 128
VALUE, LIST, MAP, SUM, TIMERS = range(5)


def states_with(namespace: JavaType) -> list[HeapState]:
    return [
        HeapState("value", namespace, TEXT),
        HeapState("list", namespace, TEXT, "LIST"),
        HeapState("map", namespace, TEXT, "MAP", TEXT),
        HeapState("sum", namespace, TEXT, "REDUCING"),
    ]


def header_of(key_type: JavaType, namespace_type: JavaType) -> KeyedHeader:
    infos = (state.info for state in states_with(namespace_type))
    timer_info = timers("_timer_state/event_a", key_type.snapshot, namespace_type.snapshot)
    return read_keyed_header(keyed_header(*infos, timer_info, key=key_type.snapshot), "")


def text(string: str) -> bytes:
    return TEXT.write(tuple(map(ord, string)))


@dataclass
class Twin:
    """Slow twin with all state by (key, namespace): maps as dictionaries, lists and sums as their parts."""

    key_type: JavaType
    namespace_type: JavaType
    values: dict[tuple[int, bytes, bytes], list[bytes]] = field(default_factory=dict)
    maps: dict[tuple[bytes, bytes], dict[bytes, bytes]] = field(default_factory=dict)
    timers: dict[bytes, bytes] = field(default_factory=dict)
    groups: dict[bytes, int] = field(default_factory=dict)

    def records(self) -> list[tuple[int, Record]]:
        ambiguous = self.key_type is TEXT and self.namespace_type is TEXT
        all_records = []
        for (state, key, namespace), parts in self.values.items():
            if parts:
                composite = composite_key(key, namespace, ambiguous=ambiguous)
                all_records.append((self.groups[key], Record(state, composite, b",".join(parts))))
        for (key, namespace), items in self.maps.items():
            for user_key, value in items.items():
                composite = composite_key(key, namespace, ambiguous=ambiguous, user_key=user_key)
                all_records.append((self.groups[key], Record(MAP, composite, value)))
        all_records += [(self.groups[key], Record(TIMERS, element, b"")) for element, key in self.timers.items()]
        return sorted(all_records)

    def apply(self, state: int, operation: Operation, key: bytes, namespace: bytes, texts: Sequence[str]) -> bytes:
        """Apply a change, and return its bytes."""
        head = bytes((operation,)) + struct.pack(">h", 40 + state) + key + namespace
        values = [text(word) for word in texts]
        if state == MAP:
            return head + self._apply_to_map(operation, self.maps.setdefault((key, namespace), {}), values)
        old = self.values.get((state, key, namespace), [])
        counted_values = i32(len(values)) + b"".join(values)
        match operation:
            case Operation.CLEAR:
                new, payload = [], b""
            case Operation.ADD:
                new, payload = [*old, *values], counted_values
            case Operation.ADD_ELEMENT:
                new, payload = [*old, values[0]], values[0]
            case _:
                new, payload = (values, counted_values) if state == LIST else (values[:1], values[0])
        self.values[state, key, namespace] = new
        return head + payload

    def merge(self, state: int, key: bytes, target: bytes, sources: Sequence[bytes]) -> bytes:
        parts = [self.values.pop((state, key, namespace), []) for namespace in (target, *sources)]
        self.values[state, key, target] = list(chain.from_iterable(parts))
        head = bytes((Operation.MERGE_NS,)) + struct.pack(">h", 40 + state) + key + target
        return head + target + i32(len(sources)) + b"".join(sources)

    @staticmethod
    def _apply_to_map(operation: Operation, items: dict[bytes, bytes], values: Sequence[bytes]) -> bytes:
        match operation:
            case Operation.CLEAR:
                items.clear()
                return b""
            case Operation.REMOVE_ELEMENT:
                items.pop(values[0], None)
                return values[0]
            case Operation.ADD:
                out = [i32(len(values))]
                for i, user_key in enumerate(values):
                    items[user_key] = b"\1" if i % 2 else b"\0" + values[0]
                    out.append(user_key + items[user_key])
                return b"".join(out)
            case _:
                items[values[0]] = b"\0" + values[-1]
                return values[0] + values[-1]


def values_of(java_type: JavaType) -> Sequence[object]:
    """Return a few values, so that examples draw the same ones repeatedly."""
    return [tuple(map(ord, word)) for word in ("", "k", "key")] if java_type is TEXT else [0, -1]


WORDS = st.lists(st.sampled_from(["", "a", "bb", "a,b"]), min_size=1, max_size=3, unique=True)
OPERATIONS = {
    VALUE: [Operation.CLEAR, Operation.SET],
    LIST: [Operation.CLEAR, Operation.SET, Operation.SET_INTERNAL, Operation.ADD, Operation.ADD_ELEMENT],
    MAP: [Operation.CLEAR, Operation.ADD, Operation.ADD_OR_UPDATE_ELEMENT, Operation.REMOVE_ELEMENT],
    SUM: [Operation.CLEAR, Operation.SET_INTERNAL],
}


class ChangeDrawer:
    """Random changes: each is applied to a twin, and returned in the form that a changelog has."""

    def __init__(self, data: st.DataObject, key_type: JavaType, namespace_type: JavaType) -> None:
        self.data = data
        self.twin = Twin(key_type, namespace_type)
        self.namespaces = [namespace_type.write(value) for value in values_of(namespace_type)]

    def changes(self, max_count: int) -> list[RawChange]:
        return [self._change() for _ in range(self.data.draw(st.integers(0, max_count)))]

    def _change(self) -> RawChange:
        twin, draw = self.twin, self.data.draw
        value = draw(st.sampled_from(values_of(twin.key_type)))
        key = twin.key_type.write(value)
        twin.groups[key] = group = key_group_of_hash(twin.key_type.code(value), MAX_PARALLELISM)
        namespace = draw(st.sampled_from(self.namespaces))
        state = draw(st.sampled_from([VALUE, LIST, MAP, SUM, TIMERS]))
        if state == TIMERS:
            return RawChange(state, group, self._timers(key, namespace))
        if state == LIST and draw(st.booleans()):
            sources = draw(
                st.permutations(
                    [other_namespace for other_namespace in self.namespaces if other_namespace != namespace]
                )
            )
            return RawChange(state, group, twin.merge(state, key, namespace, sources))
        operation = draw(st.sampled_from(OPERATIONS[state]))
        return RawChange(state, group, twin.apply(state, operation, key, namespace, draw(WORDS)))

    def _timers(self, key: bytes, namespace: bytes) -> bytes:
        times = self.data.draw(st.lists(st.integers(-2, 2), min_size=1, max_size=2, unique=True))
        elements = [timer(time, key, namespace) for time in times]
        head = struct.pack(">h", 40 + TIMERS)
        if self.data.draw(st.booleans()):
            self.twin.timers.pop(elements[0], None)
            return bytes((Operation.REMOVE_ELEMENT,)) + head + elements[0]
        self.twin.timers |= dict.fromkeys(elements, key)
        return bytes((Operation.ADD_ELEMENT,)) + head + i32(len(elements)) + b"".join(elements)


def batches(records: Sequence[tuple[int, Record]], size: int) -> Iterable[Records]:
    for i in range(0, len(records), size):
        part = records[i : i + size]
        batch = records_in_buffer([record for _, record in part], [group for group, _ in part])
        assert batch.state_ids.tolist() == [record.state for _, record in part]
        yield batch


def read(batch: Records) -> list[tuple[int, Record]]:
    columns = (batch.key_starts, batch.key_ends, batch.ends, batch.state_ids, batch.groups)
    return [
        (group, Record(state, batch.data[start:limit].tobytes(), batch.data[limit + 4 : end].tobytes()))
        for start, limit, end, state, group in zip(*(column.tolist() for column in columns), strict=True)
    ]


def overlaid_records(
    overlay: Overlay, records: Sequence[tuple[int, Record]], size: int = 100
) -> list[tuple[int, Record]]:
    overlaid = [
        record
        for batch in batches(records, size)
        for batch_over in overlay.apply_to(batch)
        for record in read(batch_over)
    ]
    return sorted([*overlaid, *(record for batch_left in overlay.remaining() for record in read(batch_left))])


@given(st.data(), st.sampled_from([TEXT, LONG]), st.sampled_from([TEXT, LONG]), st.integers(1, 5))
@settings(max_examples=examples(80))
def test_changes_applied_to_base_records_give_the_state_of_the_slow_twin(
    data: st.DataObject, key_type: JavaType, namespace_type: JavaType, size: int
) -> None:
    """This holds for any earlier records, in batches of any size."""
    drawer = ChangeDrawer(data, key_type, namespace_type)
    drawer.changes(12)
    before = data.draw(st.permutations(drawer.twin.records()))
    overlay = Overlay(drawer.changes(12), header_of(key_type, namespace_type), MAX_PARALLELISM)
    assert overlaid_records(overlay, before, size) == drawer.twin.records()


def raw_change(state: int, data: bytes, key: str = "k") -> RawChange:
    group = key_group_of_hash(TEXT.code(tuple(map(ord, key))), MAX_PARALLELISM)
    return RawChange(state, group, data)


def change(state: int, operation: Operation, payload: bytes, namespace: int = 0) -> RawChange:
    return raw_change(state, bytes((operation, 0, state)) + text("k") + struct.pack(">q", namespace) + payload)


def merge_change(target: int, *sources: int) -> RawChange:
    payload = struct.pack(">q", target) + i32(len(sources)) + b"".join(struct.pack(">q", source) for source in sources)
    return change(SUM, Operation.MERGE_NS, payload, target)


def sum_records(*values: int) -> list[tuple[int, Record]]:
    """Return (key group, record) for each number, which is the namespace of the record and, as text, its value."""
    group = key_group_of_hash(TEXT.code((ord("k"),)), MAX_PARALLELISM)
    return [(group, Record(SUM, text("k") + struct.pack(">q", value), text(f"{value}"))) for value in values]


def test_merge_of_values_by_the_jobs_own_function_is_refused() -> None:
    header = header_of(TEXT, LONG)
    with pytest.raises(UnsupportedError, match="the job's own function") as caught:
        overlaid_records(Overlay([merge_change(1, 2)], header, MAX_PARALLELISM), sum_records(1, 2))
    assert caught.value.state == "sum"
    assert "MERGE_NS of 2 values" in str(caught.value.found)


def test_value_set_after_a_merge_replaces_the_merge() -> None:
    header = header_of(TEXT, LONG)
    changes = [merge_change(1, 2, 3), change(SUM, Operation.SET_INTERNAL, text("all"), 1)]
    ((_, record),) = overlaid_records(Overlay(changes, header, MAX_PARALLELISM), sum_records(1, 2, 3))
    assert record == Record(SUM, text("k") + struct.pack(">q", 1), text("all"))


def test_value_merged_with_nothing_is_kept() -> None:
    ((_, record),) = overlaid_records(
        Overlay([merge_change(1, 2)], header_of(TEXT, LONG), MAX_PARALLELISM), sum_records(2)
    )
    assert record == Record(SUM, text("k") + struct.pack(">q", 1), text("2"))


@pytest.mark.parametrize(
    ("state", "code", "actual"),
    [
        (VALUE, Operation.ADD, "ADD"),
        (MAP, Operation.SET, "SET"),
        (SUM, Operation.ADD_ELEMENT, "ADD_ELEMENT"),
        (LIST, 9, "operation 9"),
    ],
)
def test_unknown_operation_is_refused_with_its_state(state: int, code: int, actual: str) -> None:
    header = header_of(TEXT, LONG)
    change_of_unknown_operation = raw_change(state, bytes((code, 0, state)) + text("k") + bytes(8))
    with pytest.raises(UnsupportedError, match="unknown operation") as caught:
        Overlay([change_of_unknown_operation], header, MAX_PARALLELISM)
    assert (caught.value.state, caught.value.found) == (header.states[state].name, actual)


@pytest.mark.parametrize(
    ("damaged_change", "what"),
    [
        (change(LIST, Operation.SET, i32(2) + text("a")), "a change in the log is damaged: SET"),
        (change(LIST, Operation.SET, i32(-1)), "a change in the log is damaged: SET"),
        (change(LIST, Operation.SET, i32(2) + text("a") * 3), "a change in the log is damaged: SET"),
        (change(MAP, Operation.ADD, i32(1) + text("a") + b"\2"), "a change in the log is damaged: ADD"),
        (raw_change(VALUE, bytes((Operation.CLEAR, 0, 0)) + text("k") + bytes(3)), "the namespace of a change"),
        (raw_change(VALUE, bytes((Operation.CLEAR, 0, 0)) + b"\xff"), "the key of a change"),
        (change(VALUE, Operation.CLEAR, b"")._replace(key_group=5), "the key group of its key"),
    ],
)
def test_damaged_change_is_refused(damaged_change: RawChange, what: str) -> None:
    with pytest.raises(SnapshotError, match=what):
        overlaid_records(Overlay([damaged_change], header_of(TEXT, LONG), MAX_PARALLELISM), [])


def test_single_values_of_unknown_types_are_replayed() -> None:
    """A change with several values is refused, because it is unknown where each of them ends."""
    avro = snapshot("org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot", 2, utf("com.Own") + utf("{}"))
    value, elements = keyed_state("own", avro), keyed_state("owns", list_of(avro), "LIST")
    header = read_keyed_header(keyed_header(value, elements), "")
    head = text("k") + b"\0"
    changes = [
        raw_change(0, bytes((Operation.SET, 0, 0)) + head + b"any"),
        raw_change(1, bytes((Operation.ADD, 0, 1)) + head + i32(1) + b"one"),
        raw_change(1, bytes((Operation.ADD_ELEMENT, 0, 1)) + head + b"more"),
    ]
    records_over = overlaid_records(Overlay(changes, header, MAX_PARALLELISM), [])
    assert [record.value for _, record in records_over] == [b"any", b"one,more"]
    change_of_two_values = raw_change(1, bytes((Operation.ADD, 0, 1)) + head + i32(2) + b"onetwo")
    with pytest.raises(UnsupportedError, match="the values of a change cannot be delimited"):
        Overlay([change_of_two_values], header, MAX_PARALLELISM)


def test_map_state_with_unknown_key_type_is_refused() -> None:
    avro = snapshot("org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot", 2, utf("com.Own") + utf("{}"))
    map_state = keyed_state("owns", composite(BASE + "MapSerializerSnapshot", avro, STRING), "MAP")
    header = read_keyed_header(keyed_header(map_state), "")
    with pytest.raises(UnsupportedError, match="the changes of a state cannot be replayed") as caught:
        change_layout(header, header.states[0])
    assert caught.value.state == "owns"


def test_batch_without_changed_records_is_passed_through() -> None:
    (batch,) = batches(sum_records(1, 2), 2)
    (result,) = Overlay([change(VALUE, Operation.CLEAR, b"")], header_of(TEXT, LONG), MAX_PARALLELISM).apply_to(batch)
    assert result is batch
    assert np.array_equal(result.groups, batch.groups)
