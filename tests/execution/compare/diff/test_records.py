"""Records, timers and key groups that differ are named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from rescale.execution.compare.diff.items import UNORDERED_ENTRIES
from rescale.flink.slot import Slot
from rescale.report.differences import ListedDifference
from rescale.snapshot.keyed_state import KeyedStream
from support.canonical import Record
from support.diffing import (
    diff,
    diff_against_source,
    edit_records,
    first,
    only_unequal_state,
    unequal_states,
    with_other_value,
)
from support.planting import Result

CANONICAL = "2-canonical-rocksdb"
HEAP, RAW = "2-heap-native", "2-raw"


def described_item(state: str, record: Record) -> dict[str, str]:
    """Return the description of a record of the job `everything`, whose keys are short strings."""
    time = record.key[:8] if state.startswith("_timer") else b""
    key = record.key[len(time) :]
    unit_count, key_text = key[0] - 1, key[1:]
    item = {"key": '"' + read_code_units(key_text, unit_count) + '"'}
    if time:
        item["time"] = str(int.from_bytes(time, "big") - (1 << 63))
    return item


def read_code_units(text: bytes, unit_count: int) -> str:
    code_units, position = [], 0
    for _ in range(unit_count):
        value = shift = 0
        while True:
            value |= (text[position] & 0x7F) << shift
            position, shift = position + 1, shift + 7
            if text[position - 1] < 0x80:
                break
        code_units.append(value)
    return b"".join(unit.to_bytes(2, "big") for unit in code_units).decode("utf-16-be")


@pytest.mark.parametrize("few_records", [1000, 3], ids=["all listed", "narrowed down"])
@pytest.mark.parametrize("state", ["last", "history", "sum", "kinds"])
def test_a_changed_value_is_named(state: str, few_records: int, result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    (record, *_) = edit_records(result, state, first(with_other_value))
    with patch("rescale.execution.compare.diff.record_search._FEW_RECORDS", few_records):
        unequal_state = only_unequal_state(diff_against_source(result, CANONICAL))
    (difference,) = unequal_state.differences
    assert (unequal_state.state, unequal_state.counted, unequal_state.differing_at_least) == (state, "records", 1)
    assert unequal_state.a.count == unequal_state.b.count
    assert unequal_state.a.digest != unequal_state.b.digest
    assert difference.found == "other value"
    assert difference.item["key"] == described_item(state, record)["key"]
    assert set(difference.item) == ({"key", "user_key"} if state == "kinds" else {"key"})
    assert record.value.hex()[:64] in (difference.a or "")
    assert difference.a != difference.b


def test_differing_bytes_of_a_long_value_are_shown(result_of: Callable[[str], Result], tmp_path: Path) -> None:
    result = result_of(CANONICAL)
    edit_records(result, "last", first(lambda record: [record._replace(value=bytes(5000))]))
    shutil.copytree(result.target, tmp_path / "other")
    other = replace(result, target=tmp_path / "other")
    edit_records(other, "last", first(lambda record: [record._replace(value=bytes(100) + b"\1" + bytes(4899))]))
    (difference,) = only_unequal_state(diff(result.opened(), other.opened())).differences
    assert difference.a == f"5,000 bytes from byte 96 on 0x{bytes(32).hex()}…"
    assert difference.b == f"5,000 bytes from byte 96 on 0x00000000{1:02x}{bytes(27).hex()}…"


@pytest.mark.parametrize("few_records", [1000, 3], ids=["all listed", "narrowed down"])
def test_lost_record_and_doubled_record_are_named(few_records: int, result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    (lost_record, *_) = edit_records(result, "last", first(lambda _: []))
    (doubled_record, *_) = edit_records(result, "sum", first(lambda record: [record, record]))
    with patch("rescale.execution.compare.diff.record_search._FEW_RECORDS", few_records):
        last_state, sum_state = unequal_states(diff_against_source(result, CANONICAL))
    described_value = f"8 bytes 0x{lost_record.value.hex()}"
    assert last_state.differences == (
        ListedDifference("only in A", described_item("last", lost_record), described_value, None),
    )
    assert last_state.a.count == last_state.b.count + 1
    (difference,) = sum_state.differences
    assert (difference.found, difference.item) == ("other number", described_item("sum", doubled_record))
    assert (difference.b or "").startswith("2 records")


def test_a_changed_timer_is_named(result_of: Callable[[str], Result]) -> None:
    result, state = result_of(CANONICAL), "_timer_state/event_alarms"

    def with_other_time(record: Record) -> list[Record]:
        return [record._replace(key=record.key[:7] + bytes([record.key[7] ^ 1]) + record.key[8:])]

    (record, *_) = edit_records(result, state, first(with_other_time))
    unequal_state = only_unequal_state(diff_against_source(result, CANONICAL))
    assert {(d.found, d.item["time"], d.item["key"]) for d in unequal_state.differences} == {
        ("only in A", described_item(state, record)["time"], described_item(state, record)["key"]),
        ("only in B", described_item(state, with_other_time(record)[0])["time"], described_item(state, record)["key"]),
    }


@pytest.mark.parametrize("few_records", [1000, 3], ids=["all listed", "narrowed down"])
def test_first_ten_differences_are_named_and_all_are_counted(
    few_records: int, result_of: Callable[[str], Result]
) -> None:
    result = result_of(CANONICAL)

    def with_other_values(records: list[Record]) -> list[Record]:
        return [changed for record in records for changed in with_other_value(record)]

    records = edit_records(result, "by-parity", with_other_values, everywhere=True)
    assert len(records) > 10
    with patch("rescale.execution.compare.diff.record_search._FEW_RECORDS", few_records):
        state = only_unequal_state(diff_against_source(result, CANONICAL))
    assert len(state.differences) == 10
    assert state.a.count == len(records)
    assert (
        state.differing_at_least == len(records)
        if few_records > len(records)
        else 10 <= state.differing_at_least <= len(records)
    )
    assert {difference.found for difference in state.differences} == {"other value"}
    assert all(set(difference.item) == {"key", "namespace"} for difference in state.differences)


@pytest.mark.parametrize(("name", "slot"), [(HEAP, Slot.KEYED), (RAW, Slot.RAW_KEYED)])
def test_differing_whole_key_groups_are_named(
    name: str, slot: Slot, result_of: Callable[[str], Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heap entries that cannot be told apart are compared as whole key groups."""
    if slot is Slot.KEYED:
        monkeypatch.setattr("rescale.execution.compare.diff.pairs.can_delimit_entries", lambda _: False)
    result = result_of(name)
    place = max(result.places(slot), key=lambda place: place.stream.extent.length)
    assert isinstance(place.stream, KeyedStream)
    key_group, extent = max(
        ((i, extent) for i, extent in enumerate(place.stream.groups, place.stream.first_key_group) if extent),
        key=lambda group: group[1].length,
    )
    place.flip(extent.start + extent.length - 1)
    state = only_unequal_state(diff_against_source(result, name))
    size = f"{extent.length} bytes"
    assert state.differences == (ListedDifference("other value", {"key_group": str(key_group)}, size, size),)
    assert state.remark == (UNORDERED_ENTRIES if slot is Slot.KEYED else None)


def test_difference_document_has_verdict_counts_and_digests(result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    edit_records(result, "last", first(lambda _: []))
    difference = diff_against_source(result, CANONICAL)
    assert (difference.equal, difference.verdict) == (False, "different")
    (state,) = [state for operator in difference.operators for state in operator.states if not state.equal]
    assert (state.state, state.differing_at_least, len(state.differences)) == ("last", 1, 1)
    assert state.a.count == state.b.count + 1
    assert len(state.a.digest) == 32
