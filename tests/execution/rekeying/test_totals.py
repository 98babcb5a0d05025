"""What all who read found: sizes of key groups to the byte, records, keys; and the one error that is told."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.errors import IntegrityError, RescaleError, SnapshotError
from rescale.execution.rekeying.key_counter import MOST_KEYS_COUNTED, KeyCounter
from rescale.execution.rekeying.key_groups import NewKeyGroups
from rescale.execution.rekeying.spread import Receipt
from rescale.execution.rekeying.totals import add_up
from rescale.flink.key_groups import key_group_of_hash
from rescale.flink.keyed.composite_key import composite_keys
from rescale.flink.keyed.header import read_keyed_header
from rescale.flink.serializers.formulas import KNOWN
from support.blocks import Moving, block, by_slot, regrouped
from support.canonical import Record
from support.composite import in_a_buffer
from support.java_values import long_code
from support.snapshot_bytes import LONG, keyed_header, keyed_state

MAX_PARALLELISM, STATES = 200, 3
moving = st.builds(
    Moving,
    st.integers(0, MAX_PARALLELISM - 1),
    st.builds(Record, st.integers(0, STATES - 1), st.binary(max_size=5), st.binary(max_size=9)),
)


def receipt(operator: int, records: list[Moving], keys: int = 0) -> bytes:
    slots = by_slot(records, STATES)
    sizes = [len(block(some, MAX_PARALLELISM)) for some in slots.values()]
    counts = np.bincount([one.record.state for one in records], minlength=STATES)
    return pickle.dumps(Receipt(operator, np.array(list(slots), np.int64), np.array(sizes, np.int64), counts, keys))


add = partial(add_up, slots=dict.fromkeys((0, 4), (MAX_PARALLELISM * STATES, STATES)))


@given(st.lists(st.tuples(st.sampled_from([0, 4]), st.lists(moving, max_size=9), st.integers(0, 99)), max_size=6))
def test_key_groups_are_as_long_as_they_will_be(units: list[tuple[int, list[Moving], int]]) -> None:
    totals = add(receipt(*unit) for unit in units)
    assert not isinstance(totals, RescaleError)
    assert set(totals) == {0, 4}
    for operator, total in totals.items():
        mine = [one for number, records, _ in units if number == operator for one in records]
        lengths = {group: len(data) for group, data in regrouped(mine, MAX_PARALLELISM).items()}
        assert total.key_groups().tolist() == [lengths.get(group, 0) for group in range(MAX_PARALLELISM)]
        assert total.records.tolist() == [sum(one.record.state == s for one in mine) for s in range(STATES)]
        assert total.keys == sum(keys for number, _, keys in units if number == operator)


def test_keys_are_not_counted_for_ever() -> None:
    totals = add([receipt(0, [], MOST_KEYS_COUNTED - 1), receipt(0, [], 7)])
    assert not isinstance(totals, RescaleError)
    assert totals[0].keys == MOST_KEYS_COUNTED


def test_an_error_comes_before_all_else_and_always_the_same() -> None:
    one, other = SnapshotError("broken", path="/b", offset=7), IntegrityError("another", state="s")
    for order in ([one, other], [other, one]):
        told = add([receipt(0, []), *map(pickle.dumps, order)])
        assert isinstance(told, IntegrityError)
        assert told.to_json() == other.to_json()


@given(st.lists(st.lists(st.integers(-3, 3) | st.integers(-(1 << 31), (1 << 31) - 1)), max_size=5))
def test_different_hashes_are_counted_once(batches: list[list[int]]) -> None:
    counter = KeyCounter()
    for batch in batches:
        counter.add(np.array(batch, np.int32))
    assert counter.count == len({code for batch in batches for code in batch})


def test_counting_ends_at_a_hundred_thousand() -> None:
    counter = KeyCounter()
    for start in range(0, 150_000, 50_000):
        counter.add(np.arange(start, start + 50_000, dtype=np.int32) * 8)
        assert counter.count == min(start + 50_000, MOST_KEYS_COUNTED)


LONGS = composite_keys(read_keyed_header(keyed_header(keyed_state("total"), key=LONG), ""), KNOWN)
numbers = st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=20)


def of_key(number: int) -> Record:
    return Record(0, number.to_bytes(8, "big", signed=True) + b"\0", b"")


@given(numbers, st.sampled_from([(128, 1000), (128, 64), (1000, 128), (10, 97), (4096, 32768), (1, 7), (7, 1)]))
def test_records_go_where_flink_will_look_for_their_keys(keys: list[int], maxima: tuple[int, int]) -> None:
    old, new = maxima
    records = in_a_buffer(list(map(of_key, keys)), [key_group_of_hash(long_code(key), old) for key in keys])
    groups, codes = NewKeyGroups(LONGS, old, new).of(records)
    assert groups.dtype == np.int64
    assert groups.tolist() == [key_group_of_hash(long_code(key), new) for key in keys]
    assert codes is not None
    assert codes.tolist() == list(map(long_code, keys))


@pytest.mark.parametrize(("old", "new"), [(128, 1000), (128, 64)])
def test_a_record_in_a_foreign_key_group_is_named(old: int, new: int) -> None:
    groups = [key_group_of_hash(long_code(key), old) for key in range(5)]
    groups[3] ^= 1
    with pytest.raises(IntegrityError, match="does not give the key group") as caught:
        NewKeyGroups(LONGS, old, new).of(in_a_buffer(list(map(of_key, range(5))), groups))
    error = caught.value
    assert (error.state, error.exit_code) == ("total", 4)
    assert "key bytes 000000000000000300 in" in error.what
    assert error.expected == f"key group {groups[3]} of {old}"
    assert error.found == f"key group {groups[3] ^ 1}"
    assert "--key-hash" in str(error.advice)


def test_a_divisor_needs_no_hash_and_another_maximum_does() -> None:
    records = in_a_buffer(list(map(of_key, range(4))), [0, 63, 64, 127])
    groups, codes = NewKeyGroups(None, 128, 64).of(records)
    assert (groups.tolist(), codes) == ([0, 63, 0, 63], None)
    with pytest.raises(ValueError, match="1000 does not divide 128"):
        NewKeyGroups(None, 128, 1000)
