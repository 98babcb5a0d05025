"""Which key groups and directories stand against each other, on operators that nobody ran."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rescale.execution.compare.validation.coverage import (
    check_rekeyed,
    is_compared_by_record,
    pair_database_files,
    pair_key_groups,
)
from rescale.flink.key_groups import KeyGroupRange, key_group_range
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.heap.heap import empty_group
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.slot import Slot
from rescale.snapshot.keyed_state import Database, DatabaseFile, KeyedStream
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Operator
from rescale.text.errors import IntegrityError
from support.synthetic import header_of, keyed_stream, operator

MAXIMUM = 8

A, AB, BA = header_of("a"), header_of("a", "b"), header_of("b", "a")


def stream(
    subtask: int,
    parallelism: int,
    *,
    header: KeyedHeader = A,
    framing: Framing = Framing.CANONICAL,
    maximum: int = MAXIMUM,
    size: int = 100,
    without: tuple[int, ...] = (),
) -> KeyedStream:
    own = key_group_range(maximum, parallelism, subtask)
    groups = {g: size for g in range(own.first, own.last + 1) if g not in without}
    return keyed_stream(subtask, groups, framing, header, first=own.first, last=own.last)


def keyed(parallelism: int, maximum: int = MAXIMUM, **how: Any) -> Operator:
    streams = tuple(stream(i, parallelism, maximum=maximum, **how) for i in range(parallelism))
    return operator("op", parallelism, maximum, keyed=streams)


def with_stream(before: Operator, number: int, **fields: Any) -> Operator:
    streams = (replace(unchanged, **fields) if i == number else unchanged for i, unchanged in enumerate(before.keyed))
    return replace(before, keyed=tuple(streams))


def raw(parallelism: int, maximum: int = MAXIMUM, services: tuple[Any, ...] | None = None) -> tuple[KeyedStream, ...]:
    streams = (stream(i, parallelism, framing=Framing.RAW, maximum=maximum) for i in range(parallelism))
    return tuple(replace(stream, header=b"", parsed=None, services=services) for stream in streams)


def directory(
    subtask: int, key_groups: KeyGroupRange, names: tuple[str, ...] = ("1.sst",), header: bytes = b"h"
) -> Database:
    files = tuple(DatabaseFile(name, Extent(subtask + 1, i * 10, 10)) for i, name in enumerate(names))
    return Database(subtask, key_groups, Extent(subtask + 1, 1000, len(header)), header, None, files)


def in_directories(parallelism: int, maximum: int = MAXIMUM, names: tuple[str, ...] = ("1.sst",)) -> Operator:
    databases = (directory(i, key_group_range(maximum, parallelism, i), names) for i in range(parallelism))
    return operator("op", parallelism, maximum, databases=tuple(databases))


# Which way an operator goes.

OWN = replace(keyed(2), raw_keyed=raw(2))
TIMERS = replace(keyed(2), raw_keyed=raw(2, services=("a service",)))


@pytest.mark.parametrize(
    ("old", "new", "by_record"),
    [
        (keyed(2), keyed(3), False),
        (keyed(2), keyed(2, 16), True),
        (keyed(2), keyed(2, framing=Framing.HEAP), True),
        (keyed(2), in_directories(2), True),
        (replace(keyed(2), dropped_states=frozenset("a")), keyed(2), True),
        (TIMERS, keyed(2), True),
        (TIMERS, TIMERS, False),
        (OWN, OWN, False),
        (in_directories(2), in_directories(2), False),
        (in_directories(2), in_directories(3), True),
        (in_directories(2), in_directories(2, names=("2.sst",)), True),
        (in_directories(2, names=("1.sst", "2.sst")), in_directories(2, names=("2.sst", "1.sst")), False),
        (keyed(2, framing=Framing.HEAP), keyed(3, framing=Framing.HEAP), False),
        (keyed(2, framing=Framing.HEAP), keyed(3, framing=Framing.HEAP, header=AB), True),
        (keyed(2), keyed(3, header=AB), False),
    ],
)  # fmt: skip
def test_what_goes_by_record(old: Operator, new: Operator, by_record: bool) -> None:
    assert is_compared_by_record(old, new) is by_record


def test_a_heap_stream_without_entries_gives_nothing_that_could_be_other_states() -> None:
    """Its header may be another one."""
    empty = len(empty_group(0, A))
    streams = (stream(0, 2, framing=Framing.HEAP, header=AB), stream(1, 2, framing=Framing.HEAP, size=empty))
    old = operator("op", 2, MAXIMUM, keyed=streams)
    assert not is_compared_by_record(old, keyed(1, framing=Framing.HEAP, header=AB))
    filled = replace(old, keyed=(streams[0], stream(1, 2, framing=Framing.HEAP, size=empty + 1)))
    assert is_compared_by_record(filled, keyed(1, framing=Framing.HEAP, header=AB))


# Key groups.


def test_every_key_group_has_its_two_places() -> None:
    pairs = pair_key_groups(keyed(2), keyed(3), Slot.KEYED)
    assert [pair.key_group for pair in pairs] == list(range(MAXIMUM))
    assert [pair.source and pair.source.file for pair in pairs] == [1] * 4 + [2] * 4
    assert [pair.result.file for pair in pairs] == [1] * 3 + [2] * 3 + [3] * 2
    assert all(pair.table is None and not pair.compressed and not pair.filler for pair in pairs)


def test_the_slot_says_whose() -> None:
    old = replace(keyed(2), raw_keyed=raw(2))
    new = replace(keyed(3), raw_keyed=raw(3))
    assert len(pair_key_groups(old, new, Slot.RAW_KEYED)) == MAXIMUM
    for source, other in ((replace(old, raw_keyed=()), new), (old, replace(new, raw_keyed=()))):
        assert len(pair_key_groups(source, other, Slot.KEYED)) == MAXIMUM
        with pytest.raises(IntegrityError):
            pair_key_groups(source, other, Slot.RAW_KEYED)


def test_ids_are_translated_where_headers_differ() -> None:
    old = operator("op", 2, MAXIMUM, keyed=(stream(0, 2, header=AB), stream(1, 2, header=BA)))
    tables = [pair.table for pair in pair_key_groups(old, keyed(1, header=AB), Slot.KEYED)]
    assert tables == [None] * 4 + [(1, 0)] * 4


def test_what_is_packed_is_said() -> None:
    packed = replace(A, compressed=True)
    pairs = pair_key_groups(keyed(2, header=packed), keyed(3, header=packed), Slot.KEYED)
    assert all(pair.compressed for pair in pairs)


NO_KEY_GROUP = "is not in the result"

GROUP_FAULTS: dict[str, tuple[Callable[[Operator], Operator], str]] = {
    "the first one lost": (lambda op: with_stream(op, 0, groups=(None, *op.keyed[0].groups[1:])), NO_KEY_GROUP),
    "the last one lost": (lambda op: with_stream(op, 2, groups=(*op.keyed[2].groups[:-1], None)), NO_KEY_GROUP),
    "a stream lost": (lambda op: replace(op, keyed=op.keyed[:2]), NO_KEY_GROUP),
    "all streams lost": (lambda op: replace(op, keyed=()), NO_KEY_GROUP),
    "a stream doubled": (lambda op: replace(op, keyed=(*op.keyed, op.keyed[0])), "is in the result twice"),
    "a stream of another subtask": (lambda op: with_stream(op, 0, subtask=1), "key groups of subtask 1"),
    "one key group later": (lambda op: with_stream(op, 0, first_key_group=1), "key groups of subtask 0"),
    "a key group too many": (lambda op: with_stream(op, 2, groups=op.keyed[2].groups * 2), "key groups of subtask 2"),
    "another parallelism": (lambda op: replace(op, entry=replace(op.entry, parallelism=4)), "key groups of subtask"),
    "another header": (lambda op: with_stream(op, 1, header=AB_BYTES, parsed=AB), "header of subtask 1"),
}
AB_BYTES = stream(0, 2, header=AB).header


@pytest.mark.parametrize("fault", GROUP_FAULTS)
def test_a_fault_in_where_key_groups_are_is_found(fault: str) -> None:
    change, said = GROUP_FAULTS[fault]
    with pytest.raises(IntegrityError, match=said) as caught:
        pair_key_groups(keyed(2), change(keyed(3)), Slot.KEYED)
    assert caught.value.operator == "op"


def test_how_many_are_lost_is_said() -> None:
    with pytest.raises(IntegrityError, match="key group 3 is not in the result") as caught:
        pair_key_groups(keyed(2), operator("op", 3, MAXIMUM, keyed=keyed(3).keyed[:1]), Slot.KEYED)
    assert (caught.value.expected, caught.value.found) == ("8 key groups with state", "5 missing")


@pytest.mark.parametrize("framing", [Framing.CANONICAL, Framing.RAW])
def test_what_the_source_does_not_have_is_found(framing: Framing) -> None:
    """Only the heap has blocks of key groups without state."""
    old = operator("op", 1, MAXIMUM, keyed=(stream(0, 1, framing=framing, without=(5,)),))
    with pytest.raises(IntegrityError, match="key group 5 is not in the source"):
        pair_key_groups(old, keyed(3, framing=framing), Slot.KEYED)


def test_in_the_heap_it_is_a_block_without_entries() -> None:
    heap = Framing.HEAP
    old = operator("op", 1, MAXIMUM, keyed=(stream(0, 1, framing=heap, without=(5,)),))
    pairs = pair_key_groups(old, keyed(3, framing=heap), Slot.KEYED)
    assert [(pair.key_group, pair.filler) for pair in pairs if pair.source is None] == [(5, empty_group(5, A))]
    unknown = tuple(replace(stream, parsed=None) for stream in keyed(3, framing=heap).keyed)
    with pytest.raises(IntegrityError, match="key group 5 is not in the source"):
        pair_key_groups(old, replace(keyed(3), keyed=unknown), Slot.KEYED)


def test_blocks_without_entries_of_another_header_are_made_anew() -> None:
    """And those of the same header are the source's own."""
    heap, empty = Framing.HEAP, len(empty_group(0, A))
    streams = stream(0, 2, framing=heap, header=AB), stream(1, 2, framing=heap, size=empty)
    pairs = pair_key_groups(operator("op", 2, MAXIMUM, keyed=streams), keyed(1, framing=heap, header=AB), Slot.KEYED)
    assert [pair.filler for pair in pairs] == [b""] * 4 + [empty_group(g, AB) for g in range(4, 8)]
    assert [pair.source is None for pair in pairs] == [False] * 4 + [True] * 4
    same = pair_key_groups(keyed(2, framing=heap, size=empty), keyed(1, framing=heap, size=empty), Slot.KEYED)
    assert [pair.source is None for pair in same] == [False] * 8


# Where records moved one by one.

REKEYED_FAULTS: dict[str, tuple[Callable[[Operator], Operator], str]] = {
    "a stream lost": (lambda op: replace(op, keyed=op.keyed[:2]), "subtasks with keyed state"),
    "a stream doubled": (lambda op: replace(op, keyed=(*op.keyed, op.keyed[2])), "subtasks with keyed state"),
    "no stream": (lambda op: replace(op, keyed=()), "subtasks with keyed state"),
    "streams exchanged": (lambda op: replace(op, keyed=op.keyed[::-1]), "subtasks with keyed state"),
    "key groups of another": (lambda op: with_stream(op, 1, first_key_group=0), "key groups of subtask 1"),
    "fewer key groups": (lambda op: with_stream(op, 1, groups=op.keyed[1].groups[1:]), "key groups of subtask 1"),
    "the heap's framing": (lambda op: with_stream(op, 1, framing=Framing.HEAP), "framing of subtask 1"),
    "raw keyed state": (lambda op: replace(op, raw_keyed=raw(3, 16)), "subtasks with raw keyed state"),
    "another header": (lambda op: with_stream(op, 1, header=AB_BYTES, parsed=AB), "header of subtask 1"),
}


@pytest.mark.parametrize("fault", REKEYED_FAULTS)
def test_a_fault_where_records_moved_is_found(fault: str) -> None:
    check_rekeyed(keyed(2), keyed(3, 16))
    change, said = REKEYED_FAULTS[fault]
    with pytest.raises(IntegrityError, match=said):
        check_rekeyed(keyed(2), change(keyed(3, 16)))


def test_raw_keyed_state_of_the_source_cannot_have_moved() -> None:
    with pytest.raises(IntegrityError, match="subtasks with raw keyed state"):
        check_rekeyed(replace(keyed(2), raw_keyed=raw(2)), keyed(3, 16))
    check_rekeyed(replace(keyed(2), raw_keyed=raw(2)), keyed(3))


def test_where_there_was_nothing_there_is_nothing() -> None:
    empty = operator("op", 2, MAXIMUM)
    check_rekeyed(empty, operator("op", 3, 16))
    with pytest.raises(IntegrityError, match="subtasks with keyed state"):
        check_rekeyed(empty, keyed(3, 16))


def test_the_heap_stays_the_heap() -> None:
    check_rekeyed(keyed(2, framing=Framing.HEAP), keyed(3, 16, framing=Framing.HEAP))
    check_rekeyed(keyed(2, framing=Framing.HEAP), keyed(3, 16))
    with pytest.raises(IntegrityError, match="framing of subtask 0"):
        check_rekeyed(keyed(2), keyed(3, 16, framing=Framing.HEAP))


def test_only_subtasks_whose_key_groups_had_a_directory_have_one() -> None:
    """At the same maximum; at another one every subtask has."""
    some = replace(in_directories(2), databases=in_directories(2).databases[:1])
    check_rekeyed(some, replace(in_directories(4), databases=in_directories(4).databases[:2]))
    for those in (slice(0, 1), slice(0, 3), slice(1, 3)):
        with pytest.raises(IntegrityError, match="subtasks with keyed state"):
            check_rekeyed(some, replace(in_directories(4), databases=in_directories(4).databases[those]))
    check_rekeyed(some, in_directories(4, 16))
    with pytest.raises(IntegrityError, match="subtasks with keyed state"):
        check_rekeyed(some, replace(in_directories(4, 16), databases=in_directories(4, 16).databases[:2]))
    two = in_directories(4).databases[:2]
    moved = replace(in_directories(4), databases=tuple(replace(own, key_groups=KeyGroupRange(0, 1)) for own in two))
    with pytest.raises(IntegrityError, match="key groups of subtask 1"):
        check_rekeyed(some, moved)


def test_a_directory_has_the_states_of_those_that_gave_it_key_groups() -> None:
    def of(parallelism: int, *headers: KeyedHeader) -> Operator:
        made = in_directories(parallelism)
        databases = (
            replace(database, header=stream(0, 1, header=header).header, parsed=header)
            for database, header in zip(made.databases, headers, strict=True)
        )
        return replace(made, databases=tuple(databases))

    check_rekeyed(of(2, A, AB), of(4, A, A, AB, AB))
    with pytest.raises(IntegrityError, match="header of subtask 2"):
        check_rekeyed(of(2, A, AB), of(4, A, A, A, AB))


def test_every_stream_knows_all_states_and_a_directory_those_of_its_givers() -> None:
    two = operator("op", 2, MAXIMUM, keyed=(stream(0, 2, header=A), stream(1, 2, header=AB)))
    check_rekeyed(two, keyed(4, 16, header=AB))
    with pytest.raises(IntegrityError, match="header of subtask 0"):
        check_rekeyed(two, with_stream(keyed(4, 16, header=AB), 0, header=stream(0, 1).header, parsed=A))


def test_at_the_same_maximum_every_subtask_has_a_stream_unless_directories_stay_some() -> None:
    some = replace(in_directories(2), databases=in_directories(2).databases[:1])
    as_streams = tuple(replace(stream(i, 4), header=b"h", parsed=None) for i in range(4))
    check_rekeyed(some, operator("op", 4, MAXIMUM, keyed=as_streams))
    with pytest.raises(IntegrityError, match="subtasks with keyed state"):
        check_rekeyed(some, operator("op", 4, MAXIMUM, keyed=as_streams[:2]))
    inline = operator("op", 2, MAXIMUM, keyed=(replace(stream(0, 2), header=b"h", parsed=None),))
    check_rekeyed(inline, in_directories(4))
    with pytest.raises(IntegrityError, match="subtasks with keyed state"):
        check_rekeyed(inline, replace(in_directories(4), databases=in_directories(4).databases[:2]))


# Directories that stay as they are.


def test_every_file_of_a_directory_is_paired_by_its_name() -> None:
    names = ("1.sst", "2.sst", "CURRENT")
    pairs = pair_database_files(in_directories(2, names=names), in_directories(2, names=names[::-1]))
    assert [(pair.subtask, pair.name) for pair in pairs] == [
        (subtask, name) for subtask in (0, 1) for name in (f"the states of subtask {subtask}", *names)
    ]
    assert pairs[0].source == pairs[0].result == Extent(1, 1000, 1)
    assert (pairs[1].source.start, pairs[1].result.start) == (0, 20)


@pytest.mark.parametrize(
    "new",
    [
        in_directories(3),
        in_directories(2, names=("2.sst",)),
        in_directories(2, names=("1.sst", "2.sst")),
        in_directories(2, 16),
        replace(in_directories(2), databases=in_directories(2).databases[:1]),
        replace(in_directories(2), databases=in_directories(2).databases[::-1]),
    ],
)
def test_other_directories_are_found(new: Operator) -> None:
    with pytest.raises(IntegrityError, match="RocksDB directories: result and source differ"):
        pair_database_files(in_directories(2), new)


def test_directories_are_of_the_parallelism_that_is_stored() -> None:
    """At that one Flink gives them to its subtasks without a look at their key groups."""
    old = in_directories(2)
    new = replace(old, entry=replace(old.entry, parallelism=3))
    assert not is_compared_by_record(old, new)
    with pytest.raises(IntegrityError, match="key groups of subtask 0"):
        pair_database_files(old, new)
