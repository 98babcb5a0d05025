"""`AgeFilter` and `CountingAgeFilter` leave out of batches the old values that a check of each record leaves out."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rescale.flink.keyed.blocks.records import RecordReader, Records, framed_size
from rescale.flink.keyed.heap.heap_entries import EntryKind
from rescale.flink.keyed.ttl.age_filter import AgeFilter
from rescale.flink.keyed.ttl.counting_age_filter import CountingAgeFilter, LeftOutCounts
from rescale.flink.keyed.ttl.last_access import AgeRule
from rescale.flink.serializers.type_tree import Fixed, Flagged, Text
from rescale.text.errors import RescaleError, SnapshotError, UnsupportedError
from support.canonical import Record, read_group, write_group

UNTIL = 1_000_000
PLAIN, VALUE, MAP, NUMBERS, TEXTS = range(5)
RULES = (
    AgeRule(VALUE, "value", EntryKind.VALUE, UNTIL, None),
    AgeRule(MAP, "map", EntryKind.MAP, UNTIL, None),
    AgeRule(NUMBERS, "numbers", EntryKind.LIST, UNTIL, Fixed(8)),
    AgeRule(TEXTS, "texts", EntryKind.LIST, UNTIL, Text()),
)
NAME_BY_STATE_ID = {rule.state_id: rule.state_name for rule in RULES}

Element = tuple[int, bytes]
"""A time of last access, and the bytes after it."""


def timed_bytes(element: Element) -> bytes:
    time, content = element
    return struct.pack(">q", time) + content


def text(content: str) -> bytes:
    """Return an ASCII text as `StringValue.writeString` does. A comma in it does not divide elements of a list."""
    return bytes([len(content) + 1]) + content.encode()


times = st.sampled_from([UNTIL - 1, UNTIL, UNTIL + 1, -5, 0, 1 << 62]) | st.integers(-(1 << 63), (1 << 63) - 1)
numbers = st.tuples(times, st.sampled_from([b",,,,,,,,", b"12345678", bytes(8)]))
texts = st.tuples(times, st.text(st.sampled_from("ab,"), max_size=9).map(text))
maps = st.tuples(times, st.binary(max_size=5)).map(lambda element: b"\0" + timed_bytes(element)) | st.sampled_from(
    [b"\1", b"\1behind a null"]
)


def list_value(elements: Sequence[Element]) -> bytes:
    return b",".join(map(timed_bytes, elements))


records = st.one_of(
    st.builds(Record, st.just(PLAIN), st.binary(max_size=4), st.binary(max_size=20)),
    st.builds(Record, st.just(VALUE), st.binary(max_size=4), st.tuples(times, st.binary(max_size=5)).map(timed_bytes)),
    st.builds(Record, st.just(MAP), st.binary(max_size=4), maps),
    st.builds(
        Record, st.just(NUMBERS), st.binary(max_size=4), st.lists(numbers, min_size=1, max_size=5).map(list_value)
    ),
    st.builds(Record, st.just(TEXTS), st.binary(max_size=4), st.lists(texts, min_size=1, max_size=5).map(list_value)),
)


def elements_of(record: Record) -> list[bytes]:
    """Return the elements of a list state; each begins with a time of 8 bytes.

    In the state `NUMBERS`, 8 bytes follow the time; in `TEXTS`, a text, with its length in the byte before it.
    """
    elements, rest = [], record.value
    while rest:
        size = 16 if record.state == NUMBERS else 8 + rest[8]
        elements.append(rest[:size])
        assert rest[size : size + 1] in (b"", b",")
        rest = rest[size + 1 :]
    return elements


def is_young(value: bytes) -> bool:
    return int(struct.unpack(">q", value[:8])[0]) > UNTIL


def expected_outcome(record: Record) -> tuple[Record | None, LeftOutCounts]:
    """Return what stays of a record, and what is left out."""
    if record.state == VALUE and not is_young(record.value):
        return None, LeftOutCounts(1)
    if record.state == MAP and record.value[0] != 1 and not is_young(record.value[1:]):
        return None, LeftOutCounts(1)
    if record.state not in (NUMBERS, TEXTS):
        return record, LeftOutCounts()
    elements = elements_of(record)
    young = [element for element in elements if is_young(element)]
    if not young:
        return None, LeftOutCounts(1, len(elements))
    return record._replace(value=b",".join(young)), LeftOutCounts(0, len(elements) - len(young))


def batch(group: Sequence[Record], max_parallelism: int) -> Records:
    """Return the records of one key group, as a reader yields them."""
    reader = RecordReader(max_parallelism, 5)
    data = write_group(3, group, max_parallelism)
    (records,) = reader.read(np.array([3], np.int64), np.array([0], np.int64), [data])
    return records


def records_in(records: Records) -> list[Record]:
    data = records.data.tobytes()
    columns = (
        records.state_ids.tolist(),
        records.key_starts.tolist(),
        records.key_ends.tolist(),
        records.ends.tolist(),
    )
    listing = []
    for state, start, limit, end in zip(*columns, strict=True):
        assert int.from_bytes(data[limit : limit + 4], "big") == end - limit - 4
        listing.append(Record(state, data[start:limit], data[limit + 4 : end]))
    return listing


@given(st.lists(records, min_size=1, max_size=12), st.sampled_from([128, 129]))
@example([Record(TEXTS, b"k", list_value([(UNTIL, text(",")), (UNTIL + 1, text(",a")), (UNTIL, text("b"))]))], 128)
@example(
    [
        Record(NUMBERS, b"k", list_value([(UNTIL, bytes(8))])),
        Record(NUMBERS, b"l", list_value([(5 * UNTIL, bytes(8))])),
    ],
    129,
)
def test_old_values_are_left_out_by_fast_path_and_slow_twin(group: list[Record], max_parallelism: int) -> None:
    outcomes = [expected_outcome(record) for record in group]
    kept_records = [record for record, _ in outcomes if record is not None]
    all_records = batch(group, max_parallelism)
    records_before = records_in(all_records)
    slow_filter = CountingAgeFilter(RULES, max_parallelism)
    assert records_in(AgeFilter(RULES, 5).filter(all_records)) == kept_records
    young_records = slow_filter.filter(all_records)
    assert records_in(young_records) == kept_records
    assert records_in(all_records) == records_before == group
    totals = dict.fromkeys(NAME_BY_STATE_ID.values(), LeftOutCounts())
    for record, (_, left_out) in zip(group, outcomes, strict=True):
        if record.state in NAME_BY_STATE_ID:
            totals[NAME_BY_STATE_ID[record.state]] = totals[NAME_BY_STATE_ID[record.state]].plus(left_out)
    assert slow_filter.left_out == totals
    assert (
        framed_size(all_records, max_parallelism)
        == framed_size(young_records, max_parallelism) + slow_filter.saved_bytes
    )
    assert framed_size(all_records, max_parallelism) + 2 == len(write_group(3, group, max_parallelism))


def test_state_without_a_rule_stays_unchanged() -> None:
    group = [Record(VALUE, b"k", b"short"), Record(NUMBERS, b"k", b"no list")]
    rules = [rule for rule in RULES if rule.state_id == MAP]
    assert records_in(AgeFilter(rules, 5).filter(batch(group, 128))) == group
    assert records_in(CountingAgeFilter(rules, 128).filter(batch(group, 128))) == group
    assert read_group(write_group(3, group, 128), 128)[0][1] == group[0]


POJO_RULE = AgeRule(TEXTS, "pojos", EntryKind.LIST, UNTIL, Flagged("P", ("a",), (Fixed(4),)))
SUBCLASS_VALUE = struct.pack(">q", 5) + b"\x04\0\1Q...."


@pytest.mark.parametrize(
    ("rules", "record", "error"),
    [
        (RULES, Record(VALUE, b"k", b"short"), SnapshotError),
        (RULES, Record(MAP, b"k", b"\0short"), SnapshotError),
        (RULES, Record(MAP, b"k", b""), SnapshotError),
        (RULES, Record(NUMBERS, b"k", bytes(15)), SnapshotError),
        (RULES, Record(NUMBERS, b"k", bytes(17)), SnapshotError),
        (RULES, Record(NUMBERS, b"k", bytes(16) + b","), SnapshotError),
        (RULES, Record(NUMBERS, b"k", bytes(16) + b";" + bytes(16)), SnapshotError),
        (RULES, Record(TEXTS, b"k", bytes(8) + b"\x09short"), SnapshotError),
        ((POJO_RULE,), Record(TEXTS, b"k", SUBCLASS_VALUE), UnsupportedError),
    ],
)
def test_value_without_a_readable_time_is_refused(
    rules: Sequence[AgeRule], record: Record, error: type[RescaleError]
) -> None:
    for filter_records in (AgeFilter(rules, 5).filter, CountingAgeFilter(rules, 128).filter):
        with pytest.raises(error) as caught:
            filter_records(batch([record], 128))
        assert [caught.value.state] == [rule.state_name for rule in rules if rule.state_id == record.state]
