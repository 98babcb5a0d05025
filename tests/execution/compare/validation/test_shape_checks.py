"""Pairs of key groups and directories that are compared, on constructed operators."""

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

MAX_PARALLELISM = 8

A, AB, BA = header_of("a"), header_of("a", "b"), header_of("b", "a")


def stream(
    subtask: int,
    parallelism: int,
    *,
    header: KeyedHeader = A,
    framing: Framing = Framing.CANONICAL,
    max_parallelism: int = MAX_PARALLELISM,
    size: int = 100,
    without: tuple[int, ...] = (),
) -> KeyedStream:
    own = key_group_range(max_parallelism, parallelism, subtask)
    groups = {g: size for g in range(own.first, own.last + 1) if g not in without}
    return keyed_stream(subtask, groups, framing, header, first=own.first, last=own.last)


def keyed_operator(parallelism: int, max_parallelism: int = MAX_PARALLELISM, **stream_options: Any) -> Operator:
    streams = tuple(
        stream(i, parallelism, max_parallelism=max_parallelism, **stream_options) for i in range(parallelism)
    )
    return operator("op", parallelism, max_parallelism, keyed=streams)


def edit_stream(original: Operator, index: int, **fields: Any) -> Operator:
    streams = (replace(unchanged, **fields) if i == index else unchanged for i, unchanged in enumerate(original.keyed))
    return replace(original, keyed=tuple(streams))


def raw_streams(
    parallelism: int, max_parallelism: int = MAX_PARALLELISM, services: tuple[Any, ...] | None = None
) -> tuple[KeyedStream, ...]:
    streams = (stream(i, parallelism, framing=Framing.RAW, max_parallelism=max_parallelism) for i in range(parallelism))
    return tuple(replace(stream, header=b"", parsed=None, timer_services=services) for stream in streams)


def directory(
    subtask: int, key_groups: KeyGroupRange, names: tuple[str, ...] = ("1.sst",), header: bytes = b"h"
) -> Database:
    files = tuple(DatabaseFile(name, Extent(subtask + 1, i * 10, 10)) for i, name in enumerate(names))
    return Database(subtask, key_groups, Extent(subtask + 1, 1000, len(header)), header, None, files)


def operator_with_directories(
    parallelism: int, max_parallelism: int = MAX_PARALLELISM, names: tuple[str, ...] = ("1.sst",)
) -> Operator:
    databases = (directory(i, key_group_range(max_parallelism, parallelism, i), names) for i in range(parallelism))
    return operator("op", parallelism, max_parallelism, databases=tuple(databases))


# Comparison by record or by key group.

WITH_RAW_STATE = replace(keyed_operator(2), raw_keyed=raw_streams(2))
WITH_RAW_TIMERS = replace(keyed_operator(2), raw_keyed=raw_streams(2, services=("a service",)))


@pytest.mark.parametrize(
    ("old", "new", "by_record"),
    [
        (keyed_operator(2), keyed_operator(3), False),
        (keyed_operator(2), keyed_operator(2, 16), True),
        (keyed_operator(2), keyed_operator(2, framing=Framing.HEAP), True),
        (keyed_operator(2), operator_with_directories(2), True),
        (replace(keyed_operator(2), dropped_states=frozenset("a")), keyed_operator(2), True),
        (WITH_RAW_TIMERS, keyed_operator(2), True),
        (WITH_RAW_TIMERS, WITH_RAW_TIMERS, False),
        (WITH_RAW_STATE, WITH_RAW_STATE, False),
        (operator_with_directories(2), operator_with_directories(2), False),
        (operator_with_directories(2), operator_with_directories(3), True),
        (operator_with_directories(2), operator_with_directories(2, names=("2.sst",)), True),
        (
            operator_with_directories(2, names=("1.sst", "2.sst")),
            operator_with_directories(2, names=("2.sst", "1.sst")),
            False,
        ),
        (keyed_operator(2, framing=Framing.HEAP), keyed_operator(3, framing=Framing.HEAP), False),
        (keyed_operator(2, framing=Framing.HEAP), keyed_operator(3, framing=Framing.HEAP, header=AB), True),
        (keyed_operator(2), keyed_operator(3, header=AB), False),
    ],
)  # fmt: skip
def test_operators_are_compared_by_record_or_by_key_group(old: Operator, new: Operator, by_record: bool) -> None:
    assert is_compared_by_record(old, new) is by_record


def test_heap_stream_without_entries_may_have_another_header() -> None:
    empty_size = len(empty_group(0, A))
    streams = (stream(0, 2, framing=Framing.HEAP, header=AB), stream(1, 2, framing=Framing.HEAP, size=empty_size))
    old = operator("op", 2, MAX_PARALLELISM, keyed=streams)
    assert not is_compared_by_record(old, keyed_operator(1, framing=Framing.HEAP, header=AB))
    filled = replace(old, keyed=(streams[0], stream(1, 2, framing=Framing.HEAP, size=empty_size + 1)))
    assert is_compared_by_record(filled, keyed_operator(1, framing=Framing.HEAP, header=AB))


# Key groups.


def test_each_key_group_is_paired_with_its_place_in_source_and_result() -> None:
    pairs = pair_key_groups(keyed_operator(2), keyed_operator(3), Slot.KEYED)
    assert [pair.key_group for pair in pairs] == list(range(MAX_PARALLELISM))
    assert [pair.source and pair.source.file for pair in pairs] == [1] * 4 + [2] * 4
    assert [pair.result.file for pair in pairs] == [1] * 3 + [2] * 3 + [3] * 2
    assert all(pair.id_map is None and not pair.compressed and not pair.filler for pair in pairs)


def test_key_groups_are_paired_within_their_slot() -> None:
    old = replace(keyed_operator(2), raw_keyed=raw_streams(2))
    new = replace(keyed_operator(3), raw_keyed=raw_streams(3))
    assert len(pair_key_groups(old, new, Slot.RAW_KEYED)) == MAX_PARALLELISM
    for source, result in ((replace(old, raw_keyed=()), new), (old, replace(new, raw_keyed=()))):
        assert len(pair_key_groups(source, result, Slot.KEYED)) == MAX_PARALLELISM
        with pytest.raises(IntegrityError):
            pair_key_groups(source, result, Slot.RAW_KEYED)


def test_state_ids_are_translated_where_headers_differ() -> None:
    old = operator("op", 2, MAX_PARALLELISM, keyed=(stream(0, 2, header=AB), stream(1, 2, header=BA)))
    tables = [pair.id_map for pair in pair_key_groups(old, keyed_operator(1, header=AB), Slot.KEYED)]
    assert tables == [None] * 4 + [(1, 0)] * 4


def test_pairs_of_compressed_key_groups_are_marked_as_compressed() -> None:
    compressed_header = replace(A, compressed=True)
    pairs = pair_key_groups(
        keyed_operator(2, header=compressed_header), keyed_operator(3, header=compressed_header), Slot.KEYED
    )
    assert all(pair.compressed for pair in pairs)


NO_KEY_GROUP = "is not in the result"

GROUP_FAULTS: dict[str, tuple[Callable[[Operator], Operator], str]] = {
    "the first key group lost": (lambda op: edit_stream(op, 0, groups=(None, *op.keyed[0].groups[1:])), NO_KEY_GROUP),
    "the last key group lost": (lambda op: edit_stream(op, 2, groups=(*op.keyed[2].groups[:-1], None)), NO_KEY_GROUP),
    "a stream lost": (lambda op: replace(op, keyed=op.keyed[:2]), NO_KEY_GROUP),
    "all streams lost": (lambda op: replace(op, keyed=()), NO_KEY_GROUP),
    "a stream doubled": (lambda op: replace(op, keyed=(*op.keyed, op.keyed[0])), "is in the result twice"),
    "a stream of another subtask": (lambda op: edit_stream(op, 0, subtask=1), "key groups of subtask 1"),
    "first key group one later": (lambda op: edit_stream(op, 0, first_key_group=1), "key groups of subtask 0"),
    "a key group too many": (lambda op: edit_stream(op, 2, groups=op.keyed[2].groups * 2), "key groups of subtask 2"),
    "another parallelism": (lambda op: replace(op, entry=replace(op.entry, parallelism=4)), "key groups of subtask"),
    "another header": (lambda op: edit_stream(op, 1, header=AB_BYTES, parsed=AB), "header of subtask 1"),
}
AB_BYTES = stream(0, 2, header=AB).header


@pytest.mark.parametrize("fault", GROUP_FAULTS)
def test_fault_in_places_of_key_groups_is_found(fault: str) -> None:
    change, message = GROUP_FAULTS[fault]
    with pytest.raises(IntegrityError, match=message) as caught:
        pair_key_groups(keyed_operator(2), change(keyed_operator(3)), Slot.KEYED)
    assert caught.value.operator == "op"


def test_number_of_lost_key_groups_is_reported() -> None:
    with pytest.raises(IntegrityError, match="key group 3 is not in the result") as caught:
        pair_key_groups(
            keyed_operator(2), operator("op", 3, MAX_PARALLELISM, keyed=keyed_operator(3).keyed[:1]), Slot.KEYED
        )
    assert (caught.value.expected, caught.value.found) == ("8 key groups with state", "5 missing")


@pytest.mark.parametrize("framing", [Framing.CANONICAL, Framing.RAW])
def test_key_group_that_the_source_does_not_have_is_found(framing: Framing) -> None:
    """Only heap framing writes blocks for key groups without state."""
    old = operator("op", 1, MAX_PARALLELISM, keyed=(stream(0, 1, framing=framing, without=(5,)),))
    with pytest.raises(IntegrityError, match="key group 5 is not in the source"):
        pair_key_groups(old, keyed_operator(3, framing=framing), Slot.KEYED)


def test_heap_key_group_missing_in_the_source_must_be_a_block_without_entries() -> None:
    heap = Framing.HEAP
    old = operator("op", 1, MAX_PARALLELISM, keyed=(stream(0, 1, framing=heap, without=(5,)),))
    pairs = pair_key_groups(old, keyed_operator(3, framing=heap), Slot.KEYED)
    assert [(pair.key_group, pair.filler) for pair in pairs if pair.source is None] == [(5, empty_group(5, A))]
    unparsed_streams = tuple(replace(stream, parsed=None) for stream in keyed_operator(3, framing=heap).keyed)
    with pytest.raises(IntegrityError, match="key group 5 is not in the source"):
        pair_key_groups(old, replace(keyed_operator(3), keyed=unparsed_streams), Slot.KEYED)


def test_heap_blocks_without_entries_are_compared_with_new_ones_if_headers_differ() -> None:
    """With equal headers, blocks without entries are compared with the source's blocks."""
    heap, empty_size = Framing.HEAP, len(empty_group(0, A))
    streams = stream(0, 2, framing=heap, header=AB), stream(1, 2, framing=heap, size=empty_size)
    pairs = pair_key_groups(
        operator("op", 2, MAX_PARALLELISM, keyed=streams), keyed_operator(1, framing=heap, header=AB), Slot.KEYED
    )
    assert [pair.filler for pair in pairs] == [b""] * 4 + [empty_group(g, AB) for g in range(4, 8)]
    assert [pair.source is None for pair in pairs] == [False] * 4 + [True] * 4
    equal_header_pairs = pair_key_groups(
        keyed_operator(2, framing=heap, size=empty_size), keyed_operator(1, framing=heap, size=empty_size), Slot.KEYED
    )
    assert [pair.source is None for pair in equal_header_pairs] == [False] * 8


# Operators whose records move one by one.

REKEYED_FAULTS: dict[str, tuple[Callable[[Operator], Operator], str]] = {
    "a stream lost": (lambda op: replace(op, keyed=op.keyed[:2]), "subtasks with keyed state"),
    "a stream doubled": (lambda op: replace(op, keyed=(*op.keyed, op.keyed[2])), "subtasks with keyed state"),
    "no stream": (lambda op: replace(op, keyed=()), "subtasks with keyed state"),
    "streams exchanged": (lambda op: replace(op, keyed=op.keyed[::-1]), "subtasks with keyed state"),
    "another first key group": (lambda op: edit_stream(op, 1, first_key_group=0), "key groups of subtask 1"),
    "fewer key groups": (lambda op: edit_stream(op, 1, groups=op.keyed[1].groups[1:]), "key groups of subtask 1"),
    "the heap's framing": (lambda op: edit_stream(op, 1, framing=Framing.HEAP), "framing of subtask 1"),
    "raw keyed state": (lambda op: replace(op, raw_keyed=raw_streams(3, 16)), "subtasks with raw keyed state"),
    "another header": (lambda op: edit_stream(op, 1, header=AB_BYTES, parsed=AB), "header of subtask 1"),
}


@pytest.mark.parametrize("fault", REKEYED_FAULTS)
def test_fault_in_streams_of_moved_records_is_found(fault: str) -> None:
    check_rekeyed(keyed_operator(2), keyed_operator(3, 16))
    change, message = REKEYED_FAULTS[fault]
    with pytest.raises(IntegrityError, match=message):
        check_rekeyed(keyed_operator(2), change(keyed_operator(3, 16)))


def test_raw_keyed_state_cannot_move_to_another_max_parallelism() -> None:
    with pytest.raises(IntegrityError, match="subtasks with raw keyed state"):
        check_rekeyed(replace(keyed_operator(2), raw_keyed=raw_streams(2)), keyed_operator(3, 16))
    check_rekeyed(replace(keyed_operator(2), raw_keyed=raw_streams(2)), keyed_operator(3))


def test_keyed_state_in_result_of_source_without_keyed_state_is_refused() -> None:
    empty = operator("op", 2, MAX_PARALLELISM)
    check_rekeyed(empty, operator("op", 3, 16))
    with pytest.raises(IntegrityError, match="subtasks with keyed state"):
        check_rekeyed(empty, keyed_operator(3, 16))


def test_heap_framing_may_become_canonical_but_not_the_reverse() -> None:
    check_rekeyed(keyed_operator(2, framing=Framing.HEAP), keyed_operator(3, 16, framing=Framing.HEAP))
    check_rekeyed(keyed_operator(2, framing=Framing.HEAP), keyed_operator(3, 16))
    with pytest.raises(IntegrityError, match="framing of subtask 0"):
        check_rekeyed(keyed_operator(2), keyed_operator(3, 16, framing=Framing.HEAP))


def test_only_subtasks_whose_key_groups_had_a_directory_have_one() -> None:
    """At another max parallelism, every subtask has a stream."""
    one_directory = replace(operator_with_directories(2), databases=operator_with_directories(2).databases[:1])
    check_rekeyed(
        one_directory, replace(operator_with_directories(4), databases=operator_with_directories(4).databases[:2])
    )
    for kept in (slice(0, 1), slice(0, 3), slice(1, 3)):
        with pytest.raises(IntegrityError, match="subtasks with keyed state"):
            check_rekeyed(
                one_directory,
                replace(operator_with_directories(4), databases=operator_with_directories(4).databases[kept]),
            )
    check_rekeyed(one_directory, operator_with_directories(4, 16))
    with pytest.raises(IntegrityError, match="subtasks with keyed state"):
        check_rekeyed(
            one_directory,
            replace(operator_with_directories(4, 16), databases=operator_with_directories(4, 16).databases[:2]),
        )
    two_databases = operator_with_directories(4).databases[:2]
    overlapping = replace(
        operator_with_directories(4),
        databases=tuple(replace(own, key_groups=KeyGroupRange(0, 1)) for own in two_databases),
    )
    with pytest.raises(IntegrityError, match="key groups of subtask 1"):
        check_rekeyed(one_directory, overlapping)


def test_directory_lists_the_states_of_the_directories_it_got_key_groups_from() -> None:
    def with_headers(parallelism: int, *headers: KeyedHeader) -> Operator:
        template = operator_with_directories(parallelism)
        databases = (
            replace(database, header=stream(0, 1, header=header).header, parsed=header)
            for database, header in zip(template.databases, headers, strict=True)
        )
        return replace(template, databases=tuple(databases))

    check_rekeyed(with_headers(2, A, AB), with_headers(4, A, A, AB, AB))
    with pytest.raises(IntegrityError, match="header of subtask 2"):
        check_rekeyed(with_headers(2, A, AB), with_headers(4, A, A, A, AB))


def test_every_stream_lists_all_states_if_max_parallelism_changes() -> None:
    with_two_headers = operator("op", 2, MAX_PARALLELISM, keyed=(stream(0, 2, header=A), stream(1, 2, header=AB)))
    check_rekeyed(with_two_headers, keyed_operator(4, 16, header=AB))
    with pytest.raises(IntegrityError, match="header of subtask 0"):
        check_rekeyed(
            with_two_headers, edit_stream(keyed_operator(4, 16, header=AB), 0, header=stream(0, 1).header, parsed=A)
        )


def test_every_subtask_has_a_stream_unless_directories_stay_directories() -> None:
    one_directory = replace(operator_with_directories(2), databases=operator_with_directories(2).databases[:1])
    as_streams = tuple(replace(stream(i, 4), header=b"h", parsed=None) for i in range(4))
    check_rekeyed(one_directory, operator("op", 4, MAX_PARALLELISM, keyed=as_streams))
    with pytest.raises(IntegrityError, match="subtasks with keyed state"):
        check_rekeyed(one_directory, operator("op", 4, MAX_PARALLELISM, keyed=as_streams[:2]))
    inline = operator("op", 2, MAX_PARALLELISM, keyed=(replace(stream(0, 2), header=b"h", parsed=None),))
    check_rekeyed(inline, operator_with_directories(4))
    with pytest.raises(IntegrityError, match="subtasks with keyed state"):
        check_rekeyed(
            inline, replace(operator_with_directories(4), databases=operator_with_directories(4).databases[:2])
        )


# Unchanged directories.


def test_files_of_a_directory_are_paired_by_name() -> None:
    names = ("1.sst", "2.sst", "CURRENT")
    pairs = pair_database_files(
        operator_with_directories(2, names=names), operator_with_directories(2, names=names[::-1])
    )
    assert [(pair.subtask, pair.name) for pair in pairs] == [
        (subtask, name) for subtask in (0, 1) for name in (f"the states of subtask {subtask}", *names)
    ]
    assert pairs[0].source == pairs[0].result == Extent(1, 1000, 1)
    assert (pairs[1].source.start, pairs[1].result.start) == (0, 20)


@pytest.mark.parametrize(
    "new",
    [
        operator_with_directories(3),
        operator_with_directories(2, names=("2.sst",)),
        operator_with_directories(2, names=("1.sst", "2.sst")),
        operator_with_directories(2, 16),
        replace(operator_with_directories(2), databases=operator_with_directories(2).databases[:1]),
        replace(operator_with_directories(2), databases=operator_with_directories(2).databases[::-1]),
    ],
)
def test_changed_directories_are_found(new: Operator) -> None:
    with pytest.raises(IntegrityError, match="RocksDB directories: result and source differ"):
        pair_database_files(operator_with_directories(2), new)


def test_directories_must_match_the_stored_parallelism() -> None:
    """At the same parallelism, Flink gives its subtasks the directories without looking at their key groups."""
    old = operator_with_directories(2)
    new = replace(old, entry=replace(old.entry, parallelism=3))
    assert not is_compared_by_record(old, new)
    with pytest.raises(IntegrityError, match="key groups of subtask 0"):
        pair_database_files(old, new)
