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


def in_words(state: str, record: Record) -> dict[str, str]:
    """Return the description of a record of the job `everything`, whose keys are short strings."""
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
    with patch("rescale.execution.compare.diff.record_search._FEW_RECORDS", few):
        compared = only_unequal_state(diff_against_source(result, CANONICAL))
    (difference,) = compared.differences
    assert (compared.state, compared.counted, compared.differing_at_least) == (state, "records", 1)
    assert compared.a.count == compared.b.count
    assert compared.a.digest != compared.b.digest
    assert difference.found == "other value"
    assert difference.item["key"] == in_words(state, record)["key"]
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


@pytest.mark.parametrize("few", [1000, 3], ids=["all listed", "narrowed down"])
def test_lost_record_and_doubled_record_are_named(few: int, result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    (lost, *_) = edit_records(result, "last", first(lambda _: []))
    (doubled, *_) = edit_records(result, "sum", first(lambda record: [record, record]))
    with patch("rescale.execution.compare.diff.record_search._FEW_RECORDS", few):
        fewer, other = unequal_states(diff_against_source(result, CANONICAL))
    size = f"8 bytes 0x{lost.value.hex()}"
    assert fewer.differences == (ListedDifference("only in A", in_words("last", lost), size, None),)
    assert fewer.a.count == fewer.b.count + 1
    (difference,) = other.differences
    assert (difference.found, difference.item) == ("other number", in_words("sum", doubled))
    assert (difference.b or "").startswith("2 records")


def test_a_changed_timer_is_named(result_of: Callable[[str], Result]) -> None:
    result, state = result_of(CANONICAL), "_timer_state/event_alarms"

    def later(record: Record) -> list[Record]:
        return [record._replace(key=record.key[:7] + bytes([record.key[7] ^ 1]) + record.key[8:])]

    (record, *_) = edit_records(result, state, first(later))
    compared = only_unequal_state(diff_against_source(result, CANONICAL))
    assert {(d.found, d.item["time"], d.item["key"]) for d in compared.differences} == {
        ("only in A", in_words(state, record)["time"], in_words(state, record)["key"]),
        ("only in B", in_words(state, later(record)[0])["time"], in_words(state, record)["key"]),
    }


@pytest.mark.parametrize("few", [1000, 3], ids=["all listed", "narrowed down"])
def test_first_ten_differences_are_named_and_all_are_counted(few: int, result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)

    def all_changed(records: list[Record]) -> list[Record]:
        return [changed for record in records for changed in with_other_value(record)]

    records = edit_records(result, "by-parity", all_changed, everywhere=True)
    assert len(records) > 10
    with patch("rescale.execution.compare.diff.record_search._FEW_RECORDS", few):
        state = only_unequal_state(diff_against_source(result, CANONICAL))
    assert len(state.differences) == 10
    assert state.a.count == len(records)
    assert (
        state.differing_at_least == len(records)
        if few > len(records)
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
    document = diff_against_source(result, CANONICAL)
    assert (document.equal, document.verdict) == (False, "different")
    (state,) = [state for operator in document.operators for state in operator.states if not state.equal]
    assert (state.state, state.differing_at_least, len(state.differences)) == ("last", 1, 1)
    assert state.a.count == state.b.count + 1
    assert len(state.a.digest) == 32
