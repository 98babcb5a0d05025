"""Two snapshots of the same state are equal whatever their shapes; what is planted in one of them is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from rescale.errors import SnapshotError, UnsupportedError
from rescale.execution.diff.found import Difference, SnapshotDiff, StateDiff
from rescale.execution.diff.items import EVERYWHERE, ONLY_BYTES
from rescale.execution.diff.snapshots import diff_snapshots
from rescale.flink.binary import ByteReader
from rescale.flink.metadata.handles import DistributionMode, InlineStream
from rescale.flink.metadata.model import MasterState
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.shown import shown
from rescale.planning.opening import open_snapshot
from rescale.planning.plan import Slot
from rescale.planning.snapshot import ElementStream, KeyedStream, Operator, Snapshot
from support import snapshots
from support.canonical import Record
from support.diffing import diff, edit_records
from support.pipeline import execute_without_spark, plan_rescale, rescale_snapshot, shared_spark
from support.planting import Place, Result

CANONICAL, HEAP, RAW = "2-canonical-rocksdb", "2-heap-native", "2-raw"

SHAPES = [
    (name, parallelism)
    for line in ("1.20", "2")
    for kind in (
        "canonical-hashmap",
        "canonical-rocksdb",
        "canonical-compressed",
        "heap-native",
        "heap-native-compressed",
        "heap-checkpoint",
        "lazy",
        "lazy-compressed",
        "raw",
        "inline",
        "finished",
        "source",
        "sql",
        "windows",
        "clicks",
    )
    for name, parallelism in ((f"{line}-{kind}", "1"), (f"{line}-{kind}", "4"))
]

OF_ITS_TIME = {"history-for-a-while", "kinds-for-a-while", "last-for-a-while"}
"""States with a time to live: they hold when they were written."""


def rescaled(name: str, folder: Path, parallelism: str = "4") -> Result:
    with patch("rescale.planning.streams.INLINE_LIMIT", 0):
        plan = plan_rescale(snapshots.directory(name), str(folder / "target"), [parallelism])
    execute_without_spark(plan)
    return Result(plan.source, folder / "target", Path(plan.places.candidate))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Result]:
    return cache(lambda name: rescaled(name, tmp_path_factory.mktemp("finished")))


@pytest.fixture
def result_of(finished: Callable[[str], Result], tmp_path: Path) -> Callable[[str], Result]:
    """Gives a copy of a result, to spoil."""

    def copy(name: str) -> Result:
        original = finished(name)
        shutil.copytree(original.target, tmp_path / "target")
        shutil.copy(original.candidate, tmp_path / "candidate")
        return Result(original.source, tmp_path / "target", tmp_path / "candidate")

    return copy


def against_source(result: Result, name: str) -> SnapshotDiff:
    """What the source has is A's, what the result has is B's; the other way round the same is found."""
    source, target = snapshots.opened(name), result.opened()
    found, mirrored = diff(source, target), diff(target, source)
    assert [(state.state, state.a, state.b) for state in unlike(found)] == [
        (state.state, state.b, state.a) for state in unlike(mirrored)
    ]
    return found


def unlike(found: SnapshotDiff) -> list[StateDiff]:
    return [state for operator in found.operators for state in operator.states if not state.equal]


def the_only(found: SnapshotDiff) -> StateDiff:
    assert not found.equal
    assert not any(operator.differences for operator in found.operators)
    (state,) = unlike(found)
    return state


@pytest.mark.parametrize(("name", "parallelism"), SHAPES)
def test_a_snapshot_is_equal_to_itself_in_another_shape(name: str, parallelism: str, tmp_path: Path) -> None:
    result = rescaled(name, tmp_path, parallelism)
    found = against_source(result, name)
    assert found.equal, unlike(found)
    assert sum(state.a.count for operator in found.operators for state in operator.states) > 0


@pytest.mark.parametrize(("name", "max_parallelism"), [("2-clicks", "1000"), ("1.20-canonical-compressed", "16")])
def test_it_is_equal_with_another_max_parallelism(name: str, max_parallelism: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    rescale_snapshot(snapshots.directory(name), target, parallelism=["3"], max_parallelism=[max_parallelism])
    found = diff_snapshots(snapshots.opened(name), open_snapshot(target), shared_spark())
    assert found.equal, unlike(found)
    shapes = {operator.shapes[1] for operator in found.operators}
    assert {shape.max_parallelism for shape in shapes if shape} == {int(max_parallelism)}


@pytest.mark.parametrize("line", ["1.20", "2"])
def test_state_of_both_backends_is_equal(line: str) -> None:
    """Each ran the same job; they write nulls of a map in different ways."""
    found = diff(snapshots.opened(f"{line}-canonical-hashmap"), snapshots.opened(f"{line}-canonical-rocksdb"))
    assert {state.state for state in unlike(found)} == OF_ITS_TIME
    assert all(d.found == "other value" for state in unlike(found) for d in state.differences)
    assert all("time to live" in (state.remark or "") for state in unlike(found))


def first(change: Callable[[Record], list[Record]]) -> Callable[[list[Record]], list[Record]]:
    return lambda records: [*change(records[0]), *records[1:]]


def with_other_value(record: Record) -> list[Record]:
    return [record._replace(value=record.value[:-1] + bytes([record.value[-1] ^ 1]))]


def in_words(state: str, record: Record) -> dict[str, str]:
    """The name of a record of the job `everything`, whose keys are short strings."""
    time = record.key[:8] if state.startswith("_timer") else b""
    key = record.key[len(time) :]
    units, text = key[0] - 1, key[1:]
    name = {"key": '"' + read_units(text, units) + '"'}
    if time:
        name["time"] = str(int.from_bytes(time, "big") - (1 << 63))
    return name


def read_units(text: bytes, units: int) -> str:
    out, at = [], 0
    for _ in range(units):
        value = shift = 0
        while True:
            value |= (text[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if text[at - 1] < 0x80:
                break
        out.append(value)
    return b"".join(unit.to_bytes(2, "big") for unit in out).decode("utf-16-be")


@pytest.mark.parametrize("few", [1000, 3], ids=["all listed", "narrowed down"])
@pytest.mark.parametrize("state", ["last", "history", "sum", "kinds"])
def test_a_changed_value_is_named(state: str, few: int, result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    (record, *_) = edit_records(result, state, first(with_other_value))
    with patch("rescale.execution.diff.records._FEW", few):
        found = the_only(against_source(result, CANONICAL))
    (difference,) = found.differences
    assert (found.state, found.counted, found.differing) == (state, "records", 1)
    assert found.a.count == found.b.count
    assert found.a.digest != found.b.digest
    assert difference.found == "other value"
    assert difference.item["key"] == in_words(state, record)["key"]
    assert set(difference.item) == ({"key", "user_key"} if state == "kinds" else {"key"})
    assert record.value.hex()[:64] in (difference.a or "")
    assert difference.a != difference.b


def test_of_a_long_value_the_bytes_that_differ_are_shown(result_of: Callable[[str], Result], tmp_path: Path) -> None:
    result = result_of(CANONICAL)
    edit_records(result, "last", first(lambda record: [record._replace(value=bytes(5000))]))
    shutil.copytree(result.target, tmp_path / "other")
    other = replace(result, target=tmp_path / "other")
    edit_records(other, "last", first(lambda record: [record._replace(value=bytes(100) + b"\1" + bytes(4899))]))
    (difference,) = the_only(diff(result.opened(), other.opened())).differences
    assert difference.a == f"5,000 bytes from byte 96 on 0x{bytes(32).hex()}…"
    assert difference.b == f"5,000 bytes from byte 96 on 0x00000000{1:02x}{bytes(27).hex()}…"


@pytest.mark.parametrize("few", [1000, 3], ids=["all listed", "narrowed down"])
def test_a_lost_record_and_a_doubled_one_are_named(few: int, result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    (lost, *_) = edit_records(result, "last", first(lambda _: []))
    (doubled, *_) = edit_records(result, "sum", first(lambda record: [record, record]))
    with patch("rescale.execution.diff.records._FEW", few):
        one, other = unlike(against_source(result, CANONICAL))
    size = f"8 bytes 0x{lost.value.hex()}"
    assert one.differences == (Difference("only in A", in_words("last", lost), size, None),)
    assert one.a.count == one.b.count + 1
    (difference,) = other.differences
    assert (difference.found, difference.item) == ("other number", in_words("sum", doubled))
    assert (difference.b or "").startswith("2 records")


def test_a_changed_timer_is_named(result_of: Callable[[str], Result]) -> None:
    result, state = result_of(CANONICAL), "_timer_state/event_alarms"

    def later(record: Record) -> list[Record]:
        return [record._replace(key=record.key[:7] + bytes([record.key[7] ^ 1]) + record.key[8:])]

    (record, *_) = edit_records(result, state, first(later))
    found = the_only(against_source(result, CANONICAL))
    assert {(d.found, d.item["time"], d.item["key"]) for d in found.differences} == {
        ("only in A", in_words(state, record)["time"], in_words(state, record)["key"]),
        ("only in B", in_words(state, later(record)[0])["time"], in_words(state, record)["key"]),
    }


@pytest.mark.parametrize("few", [1000, 3], ids=["all listed", "narrowed down"])
def test_of_many_differences_some_are_named_and_all_are_counted(few: int, result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)

    def all_changed(records: list[Record]) -> list[Record]:
        return [changed for record in records for changed in with_other_value(record)]

    records = edit_records(result, "by-parity", all_changed, everywhere=True)
    assert len(records) > 10
    with patch("rescale.execution.diff.records._FEW", few):
        found = the_only(against_source(result, CANONICAL))
    assert len(found.differences) == 10
    assert found.a.count == len(records)
    assert found.differing == len(records) if few > len(records) else 10 <= found.differing <= len(records)
    assert {difference.found for difference in found.differences} == {"other value"}
    assert all(set(difference.item) == {"key", "namespace"} for difference in found.differences)


def changed_elements(
    result: Result, mode: DistributionMode, change: Callable[[list[bytes]], list[bytes]], slot: Slot = Slot.OPERATOR
) -> tuple[str, Place, list[bytes]]:
    """Changes the elements of the first state of that kind with two of them (or a copy) in a subtask."""
    for place in result.places(slot):
        assert isinstance(place.stream, ElementStream)
        for state in place.stream.states:
            if state.mode is mode and len(state.elements) >= (1 if mode is DistributionMode.BROADCAST else 2):
                elements = result.elements(place)
                before = elements[state.name]
                result.write_elements(place, {**elements, state.name: change(before)})
                return state.name, place, before
    raise AssertionError(f"no {mode.name} state")


@pytest.mark.parametrize("mode", [DistributionMode.SPLIT_DISTRIBUTE, DistributionMode.UNION])
def test_a_doubled_element_is_named(mode: DistributionMode, result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    name, _, _ = changed_elements(result, mode, lambda elements: [elements[0], *elements])
    found = the_only(against_source(result, CANONICAL))
    (difference,) = found.differences
    assert (found.state, found.type, found.counted) == (name, mode.name, "elements")
    assert found.b.count == found.a.count + 1
    assert (difference.found, difference.a, difference.b) == ("other number", "1 time", "2 times")


def test_a_changed_element_is_named(result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    changed_elements(result, DistributionMode.SPLIT_DISTRIBUTE, lambda e: [e[0][:-1] + bytes([e[0][-1] ^ 1]), *e[1:]])
    found = the_only(against_source(result, CANONICAL))
    assert sorted((d.found, d.a, d.b) for d in found.differences) == [
        ("only in A", "1 time", None),
        ("only in B", None, "1 time"),
    ]
    assert len({d.item["element"] for d in found.differences}) == 2


def test_a_union_that_every_subtask_stores_is_told_as_such(result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    places = [place for place in result.places(Slot.OPERATOR) if "offsets" in result.elements(place)]
    everything = [element for place in places for element in result.elements(place)["offsets"]]
    for place in places:
        result.write_elements(place, {**result.elements(place), "offsets": everything})
    found = the_only(against_source(result, CANONICAL))
    assert found.b.count == len(places) * found.a.count
    assert found.remark == EVERYWHERE
    for difference in found.differences:
        once, again = (int((words or "0").split()[0]) for words in (difference.a, difference.b))
        assert (difference.found, again) == ("other number", len(places) * once)


def test_a_missing_broadcast_copy_is_named(result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    places = [place for place in result.places(Slot.OPERATOR) if "rates" in result.elements(place)]
    elements = result.elements(places[2])
    del elements["rates"]
    result.write_elements(places[2], elements)
    found = the_only(against_source(result, CANONICAL))
    assert (found.state, found.type) == ("rates", "BROADCAST")
    assert found.differences == (
        Difference("other number", {"copies": "by subtask"}, "in every subtask", "missing in subtask 2"),
    )


def test_another_broadcast_copy_is_named(result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    name, place, _ = changed_elements(
        result, DistributionMode.BROADCAST, lambda copies: [copies[0][:-1] + bytes([copies[0][-1] ^ 1])]
    )
    found = the_only(against_source(result, CANONICAL))
    (difference,) = found.differences
    assert (found.state, found.a.count, found.b.count) == (name, 1, 2)
    assert (difference.found, difference.b) == ("only in B", f"subtask {place.stream.subtask}")


@pytest.mark.parametrize("name", [CANONICAL, "2-canonical-compressed"])
def test_the_order_of_the_entries_of_a_broadcast_state_means_nothing(
    name: str, result_of: Callable[[str], Result]
) -> None:
    result = result_of(name)
    changed = 0
    for place in result.places(Slot.OPERATOR):
        stream = place.stream
        assert isinstance(stream, ElementStream)
        assert stream.parsed is not None
        if stream.parsed.compressed:
            continue
        for info in stream.parsed.broadcast_states:
            serializers = dict(info.serializers)
            steps = [compile_program(serializers[f"{part}_SERIALIZER"]).step for part in ("KEY", "VALUE")]
            elements = result.elements(place)
            copy = elements[info.name][0]
            reader, entries = ByteReader(copy), []
            for _ in range(reader.i32()):
                begin = reader.position
                for step in steps:
                    shown(step, reader)
                entries.append(copy[begin : reader.position])
            turned = copy[:4] + b"".join(reversed(entries))
            changed += turned != copy
            result.write_elements(place, {**elements, info.name: [turned]})
    assert changed or name != CANONICAL
    assert against_source(result, name).equal


@pytest.mark.parametrize(("name", "slot"), [(HEAP, Slot.KEYED), (RAW, Slot.RAW_KEYED)])
def test_whole_key_groups_that_differ_are_named(name: str, slot: Slot, result_of: Callable[[str], Result]) -> None:
    result = result_of(name)
    place = max(result.places(slot), key=lambda place: place.stream.extent.length)
    assert isinstance(place.stream, KeyedStream)
    key_group, extent = max(
        ((i, extent) for i, extent in enumerate(place.stream.groups, place.stream.first_key_group) if extent),
        key=lambda group: group[1].length,
    )
    place.flip(extent.start + extent.length - 1)
    found = the_only(against_source(result, name))
    size = f"{extent.length} bytes"
    assert found.differences == (Difference("other value", {"key_group": str(key_group)}, size, size),)
    assert found.remark == (ONLY_BYTES if slot is Slot.KEYED else None)


def test_an_operator_that_only_one_lists_is_a_difference_if_it_has_state(result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    for operator in result.opened().operators:
        result.candidate.write_bytes(Path(f"{result.target}/_metadata").read_bytes())
        operator_id = operator.entry.operator_id
        result.edit(
            lambda metadata, gone=operator_id: replace(
                metadata, operators=tuple(entry for entry in metadata.operators if entry.operator_id != gone)
            )
        )
        found = against_source(result, CANONICAL)
        assert found.equal == (operator.bytes == 0)
        differing = [one for one in found.operators if not one.equal]
        if operator.bytes:
            (only,) = differing
            assert only.operator_id == operator_id
            assert [difference.found for difference in only.differences] == ["only in A"]
            assert all(state.b.count == 0 for state in only.states)


def test_what_coordinators_and_the_job_manager_hold_counts(result_of: Callable[[str], Result]) -> None:
    result = result_of("2-source")
    number = next(i for i, one in enumerate(result.opened().operators) if one.entry.coordinator)
    result.edit_operator(number, lambda entry: replace(entry, coordinator=InlineStream("coordinator", b"other")))
    found = the_only(against_source(result, "2-source"))
    assert (found.state, found.b.count, found.differences[0].b) == ("coordinator", 5, "5 bytes")
    result.edit_operator(number, lambda entry: replace(entry, coordinator=None))
    assert the_only(against_source(result, "2-source")).differences[0].found == "only in A"
    result.edit(lambda metadata: replace(metadata, masters=(MasterState(1, "hook", b"x"),)))
    assert [state.state for state in unlike(against_source(result, "2-source"))] == ["hook", "coordinator"]


def with_operators(snapshot: Snapshot, change: Callable[[Operator], Operator]) -> Snapshot:
    return replace(snapshot, operators=tuple(map(change, snapshot.operators)))


def test_an_operator_that_has_finished_is_another(result_of: Callable[[str], Result]) -> None:
    result = result_of("2-finished")
    number = next(i for i, one in enumerate(result.opened().operators) if one.entry.fully_finished)
    result.edit_operator(number, lambda entry: replace(entry, fully_finished=False))
    found = against_source(result, "2-finished")
    assert not found.equal
    assert found.operators[number].differences == (
        Difference("other value", {"operator": "has finished"}, "finished", "running"),
    )


def test_another_type_of_a_state_is_a_difference() -> None:
    a = snapshots.opened(CANONICAL)

    def renamed(stream: KeyedStream) -> KeyedStream:
        assert stream.parsed is not None
        states = tuple(
            replace(info, options=(("KEYED_STATE_TYPE", "REDUCING"),)) if info.name == "last" else info
            for info in stream.parsed.states
        )
        return replace(stream, parsed=replace(stream.parsed, states=states))

    b = with_operators(a, lambda operator: replace(operator, keyed=tuple(map(renamed, operator.keyed))))
    found = the_only(diff(a, b))
    assert found.differences == (Difference("other type", {}, "VALUE Long", "REDUCING Long"),)


def unread(stream: KeyedStream) -> KeyedStream:
    return replace(stream, parsed=None)


def without_headers(snapshot: Snapshot) -> Snapshot:
    """As if the serializers of keyed state were not known."""
    return with_operators(snapshot, lambda operator: replace(operator, keyed=tuple(map(unread, operator.keyed))))


def test_states_whose_serializers_are_not_known_are_compared_by_number(result_of: Callable[[str], Result]) -> None:
    result = result_of("2-clicks")
    a = without_headers(snapshots.opened("2-clicks"))
    assert diff(a, without_headers(result.opened())).equal
    state = next(
        info.name
        for one in a.operators
        for stream in snapshots.operator_of("2-clicks", one.label).keyed
        if stream.parsed
        for info in stream.parsed.states
        if info.state_type == "VALUE"
    )
    (record, *_) = edit_records(result, state, first(with_other_value))
    found = the_only(diff(a, without_headers(result.opened())))
    assert found.state.startswith("state ")
    assert found.differences[0].item == {"key_bytes": f"0x{record.key.hex()}"}


def test_with_other_headers_they_cannot_be() -> None:
    snapshot = without_headers(snapshots.opened("2-lazy"))
    with pytest.raises(UnsupportedError, match="a serializer that is not known hides how"):
        diff(snapshot, snapshot)


@pytest.mark.parametrize(
    ("a", "b", "what"),
    [
        ("2-canonical-hashmap", "2-heap-checkpoint", "one snapshot has heap framing"),
        ("2-unaligned", "2-unaligned", "records in flight"),
        ("1.20-heap-native", "1.20-heap-native-compressed", "whole key groups only"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_a_way_round(a: str, b: str, what: str) -> None:
    with pytest.raises(UnsupportedError, match=what) as refused:
        diff(snapshots.opened(a), snapshots.opened(b))
    assert refused.value.operator
    assert refused.value.advice


def test_heap_state_in_another_order_is_refused() -> None:
    a = snapshots.opened(HEAP)

    def turned(stream: KeyedStream) -> KeyedStream:
        assert stream.parsed is not None
        return replace(stream, parsed=replace(stream.parsed, states=stream.parsed.states[::-1]))

    b = with_operators(a, lambda operator: replace(operator, keyed=tuple(map(turned, operator.keyed))))
    with pytest.raises(UnsupportedError, match="heap framing does not tell where a state begins"):
        diff(a, b)


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_snapshot_that_cannot_be_read_is_no_difference(damage: str, result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    place = max(result.places(Slot.KEYED), key=lambda place: place.stream.extent.length)
    result.write_groups(place, [group[:-1] if group else None for group in result.groups(place)])
    if damage == "gone":
        place.path.unlink()
    with pytest.raises(SnapshotError) as caught:
        diff(snapshots.opened(CANONICAL), result.opened())
    assert str(result.target) in str(caught.value) or damage == "gone"


def test_the_document_tells_all(result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    edit_records(result, "last", first(lambda _: []))
    document: dict[str, Any] = against_source(result, CANONICAL).document()
    assert (document["equal"], document["verdict"]) == (False, "different")
    (state,) = [s for operator in document["operators"] for s in operator["states"] if not s["equal"]]
    assert (state["state"], state["differing_at_least"], len(state["differences"])) == ("last", 1, 1)
    assert state["a"]["count"] == state["b"]["count"] + 1
    assert len(state["a"]["digest"]) == 32
