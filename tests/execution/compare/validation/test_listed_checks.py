"""Everything that must be compared is listed once; a task reads what is contiguous at once. Operators are made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rescale.execution.compare.validation.check_units import Checks, _group_checks, list_checks
from rescale.execution.compare.validation.compare import ElementCheck, FileCheck, GroupCheck
from rescale.execution.compare.validation.coverage import FilePair, GroupPair
from rescale.execution.compare.validation.directories import DirectoryFiles
from rescale.execution.compare.validation.record_compare import RecordCheck
from rescale.flink.key_groups import KeyGroupRange, key_group_range
from rescale.flink.keyed.header import read_keyed_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keyed.timers.heap_timers import TimerService, timer_header
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.slot import Slot
from rescale.planning.little_work import LITTLE_BYTES, LITTLE_UNITS
from rescale.snapshot.keyed_state import Database, DatabaseFile, KeyedStream
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Operator
from rescale.snapshot.places import DatabasePlace, StreamPlace
from rescale.text.errors import IntegrityError
from support.snapshot_bytes import LONG, VOID_NAMESPACE, keyed_header, keyed_state, parsed
from support.synthetic import GROUP_SIZE, element_stream, keyed_stream, operator, own_stream, snapshot

SPLIT, UNION = DistributionMode.SPLIT_DISTRIBUTE, DistributionMode.UNION
MAX_PARALLELISM = 8


def streams(
    parallelism: int, max_parallelism: int = MAX_PARALLELISM, framing: Framing = Framing.CANONICAL
) -> tuple[KeyedStream, ...]:
    header = b"" if framing is Framing.RAW else read_keyed_header(keyed_header(keyed_state("a")), "")
    return tuple(own_stream(i, parallelism, max_parallelism, framing, header) for i in range(parallelism))


def list_checks_of(
    old: Operator, new: Operator, hashes: dict[str, str] | None = None, **by_files: DirectoryFiles
) -> Checks:
    """List the checks of one operator, whose number is 1 because an empty operator precedes it."""
    empty = operator("nothing")
    files_by_subtask = {file.subtask: file for file in by_files.values()}
    return list_checks(snapshot(empty, old), snapshot(empty, new), hashes or {}, [{}, files_by_subtask])


def of_kind(checks: Checks, kind: type[Any]) -> list[Any]:
    return [check for _, check in checks.units if isinstance(check, kind)]


def test_key_groups_are_listed_in_runs_that_are_contiguous_on_both_sides() -> None:
    old = operator("op", 2, MAX_PARALLELISM, keyed=streams(2), raw_keyed=streams(2, framing=Framing.RAW))
    new = operator("op", 3, MAX_PARALLELISM, keyed=streams(3), raw_keyed=streams(3, framing=Framing.RAW))
    checks = list_checks_of(old, new)
    for slot in (Slot.KEYED, Slot.RAW_KEYED):
        own = [check for check in of_kind(checks, GroupCheck) if check.slot is slot]
        assert [[pair.key_group for pair in check.pairs] for check in own] == [[0, 1, 2], [3], [4, 5], [6, 7]]
        assert {(check.operator_index, check.label) for check in own} == {(1, "op")}
    assert [weight for weight, _ in checks.units] == [2 * GROUP_SIZE * n for n in (3, 1, 2, 2)] * 2
    assert checks.small_files == []


def test_translated_and_filled_key_groups_get_checks_of_their_own() -> None:
    first_header, other_header = (
        read_keyed_header(keyed_header(*map(keyed_state, names)), "") for names in ("ab", "ba")
    )
    keyed = keyed_stream(0, dict.fromkeys(range(4), 10), Framing.CANONICAL, other_header, first=0, last=3)
    new = keyed_stream(0, dict.fromkeys(range(4), 10), Framing.CANONICAL, first_header, first=0, last=3)
    stream_without_groups = keyed_stream(1, {}, Framing.CANONICAL, first_header, first=0, last=3)
    checks = list_checks_of(
        operator("op", 1, 4, keyed=(keyed, stream_without_groups)), operator("op", 1, 4, keyed=(new,))
    )
    assert [[pair.key_group for pair in check.pairs] for check in of_kind(checks, GroupCheck)] == [[0], [1], [2], [3]]
    assert all(pair.id_map == (1, 0) for check in of_kind(checks, GroupCheck) for pair in check.pairs)
    heap_stream = keyed_stream(0, {0: 10, 1: 10}, Framing.HEAP, first_header, first=0, last=3)
    filled_stream = keyed_stream(0, dict.fromkeys(range(4), 10), Framing.HEAP, first_header, first=0, last=3)
    checks = list_checks_of(operator("op", 1, 4, keyed=(heap_stream,)), operator("op", 1, 4, keyed=(filled_stream,)))
    assert [[pair.key_group for pair in check.pairs] for check in of_kind(checks, GroupCheck)] == [[0, 1], [2], [3]]
    assert [weight for weight, _ in checks.units] == [40, 10, 10]


def test_elements_of_both_sides_and_both_slots_are_listed() -> None:
    states = {"a": (SPLIT, 2), "b": (UNION, 1)}
    old, new = (
        operator(
            "op",
            parallelism,
            elements=tuple(element_stream(i, states) for i in range(parallelism)),
            raw_elements=tuple(element_stream(i, {"r": (SPLIT, 3)}) for i in range(parallelism)),
        )
        for parallelism in (1, 2)
    )
    checks = list_checks_of(old, new)
    element_checks = [
        (check.slot, check.in_result, check.subtask, check.state, check.mode, len(check.elements))
        for check in of_kind(checks, ElementCheck)
    ]
    sides = ((False, 0), (True, 0), (True, 1))
    expected = [(Slot.OPERATOR, *side, name, mode, n) for side in sides for name, (mode, n) in states.items()]
    assert element_checks == [*expected, *((Slot.RAW_OPERATOR, *side, "r", SPLIT, 3) for side in sides)]
    assert [weight for weight, _ in checks.units] == [20, 10] * 3 + [30] * 3


def test_elements_of_states_with_different_modes_are_refused() -> None:
    old = operator("op", 1, elements=(element_stream(0, {"a": (SPLIT, 1)}),))
    new = operator("op", 1, elements=(element_stream(0, {"a": (UNION, 1)}),))
    with pytest.raises(IntegrityError, match="states"):
        list_checks_of(old, new)


PLAIN, TRANSLATED, FILLED = {}, {"id_map": (1, 0)}, {"source": None}


@pytest.mark.parametrize(
    ("first_change", "second_change", "are_read_together"),
    [
        (PLAIN, PLAIN, True),
        (PLAIN, TRANSLATED, False),
        (TRANSLATED, PLAIN, False),
        (TRANSLATED, TRANSLATED, False),
        (FILLED, PLAIN, False),
        (PLAIN, FILLED, False),
        (FILLED, FILLED, False),
        (PLAIN, {"source": Extent(1, 11, 10)}, False),
        (PLAIN, {"result": Extent(1, 11, 10)}, False),
        (PLAIN, {"source": Extent(2, 10, 10)}, False),
    ],
)
def test_key_groups_are_read_together_only_if_they_are_contiguous_copies(
    first_change: dict[str, Any], second_change: dict[str, Any], are_read_together: bool
) -> None:
    pairs = [
        GroupPair(number, Extent(1, number * 10, 10), Extent(1, number * 10, 10))._replace(**change)
        for number, change in enumerate((first_change, second_change))
    ]
    group_checks = list(_group_checks(0, operator("op"), pairs, Slot.KEYED))
    assert [check.pairs for check in group_checks] == (
        [tuple(pairs)] if are_read_together else [(pairs[0],), (pairs[1],)]
    )


SERVICE = TimerService("timers", parsed(LONG), parsed(VOID_NAMESPACE))


def raw_timers(parallelism: int) -> tuple[KeyedStream, ...]:
    raw_streams = streams(parallelism, framing=Framing.RAW)
    return tuple(replace(stream, timer_services=(SERVICE,), parsed=timer_header([SERVICE])) for stream in raw_streams)


def test_raw_timers_are_compared_by_key_groups_unless_they_get_other_ones() -> None:
    old = operator("op", 2, MAX_PARALLELISM, keyed=streams(2), raw_keyed=raw_timers(2))
    new = operator("op", 3, MAX_PARALLELISM, keyed=streams(3), raw_keyed=raw_timers(3))
    assert len(of_kind(list_checks_of(old, new), GroupCheck)) == 8
    checks = list_checks_of(replace(old, dropped_states=frozenset("never")), new)
    assert [check.slot for check in of_kind(checks, GroupCheck)] == [Slot.RAW_KEYED] * 4
    record_checks = [(check.in_result, framing(check)) for check in of_kind(checks, RecordCheck)]
    assert record_checks == [(False, Framing.CANONICAL)] * 2 + [(True, Framing.CANONICAL)] * 3


def test_raw_timers_with_other_key_groups_are_compared_by_records() -> None:
    old = operator("op", 2, MAX_PARALLELISM, keyed=streams(2), raw_keyed=raw_timers(2))
    new = operator("op", 3, 2 * MAX_PARALLELISM, keyed=streams(3), raw_keyed=raw_timers(3))
    checks = list_checks_of(old, new)
    assert of_kind(checks, GroupCheck) == []
    record_checks = [(check.in_result, framing(check)) for check in of_kind(checks, RecordCheck)]
    assert record_checks == [
        *[(False, Framing.CANONICAL)] * 2,
        *[(False, Framing.RAW)] * 2,
        *[(True, Framing.CANONICAL)] * 3,
        *[(True, Framing.RAW)] * 3,
    ]
    assert not any(check.are_duplicates for check in of_kind(checks, RecordCheck))


def test_timers_stored_twice_get_two_checks() -> None:
    header = timer_header([SERVICE])
    keyed = tuple(own_stream(i, 2, MAX_PARALLELISM, Framing.CANONICAL, header) for i in range(2))
    old = operator("op", 2, MAX_PARALLELISM, keyed=keyed, raw_keyed=raw_timers(2))
    assert old.duplicate_timers
    new = operator("op", 2, 16, keyed=tuple(own_stream(i, 2, 16, Framing.CANONICAL, header) for i in range(2)))
    record_checks = of_kind(list_checks_of(old, new), RecordCheck)
    assert [(check.are_duplicates, check.in_result) for check in record_checks] == [
        *[(False, False)] * 2,
        *[(False, True)] * 2,
        *[(True, False)] * 2,
    ]
    assert [framing(check) for check in record_checks if check.are_duplicates] == [Framing.RAW] * 2


def framing(check: RecordCheck) -> Framing:
    assert isinstance(check.record_source.place, StreamPlace)
    return check.record_source.place.framing


def test_elements_that_are_not_contiguous_are_listed_one_by_one() -> None:
    stream = element_stream(0, {"a": (SPLIT, 1), "b": (SPLIT, 1), "c": (SPLIT, 1)})
    first, second, third = (state.elements[0] for state in stream.states)
    with_gaps = replace(stream, states=(replace(stream.states[0], elements=(first, third, second)),))
    unchanged = operator("op", 1, elements=(with_gaps,))
    element_checks = of_kind(list_checks_of(unchanged, unchanged), ElementCheck)
    assert [check.elements for check in element_checks] == [(first,), (third,), (second,)] * 2


def test_records_of_both_sides_are_listed_with_the_max_parallelism_of_their_side() -> None:
    old = operator("op", 2, MAX_PARALLELISM, keyed=streams(2))
    new = operator("op", 3, 16, keyed=streams(3, 16))
    checks = list_checks_of(old, new, {old.operator_id: "java"})
    record_checks = of_kind(checks, RecordCheck)
    assert len(record_checks) == len(checks.units)
    assert [(check.in_result, check.record_source.max_parallelism) for check in record_checks] == [(False, 8)] * 2 + [
        (True, 16)
    ] * 3
    assert {
        (check.operator_index, check.label, check.key_hash, check.new_max_parallelism) for check in record_checks
    } == {(1, "op", "java", 16)}
    assert sum(check.record_source.key_group_count for check in record_checks if check.in_result) == 16
    assert [weight for weight, _ in checks.units] == [check.record_source.size for check in record_checks]
    assert {check.key_hash for check in of_kind(list_checks_of(old, new), RecordCheck)} == {None}


def test_other_raw_keyed_state_is_compared_by_key_groups_if_records_move() -> None:
    """This holds at the same max parallelism; at another one raw keyed state cannot be kept."""
    old = operator("op", 2, MAX_PARALLELISM, keyed=streams(2), raw_keyed=streams(2, framing=Framing.RAW))
    new = operator("op", 3, MAX_PARALLELISM, keyed=streams(3), raw_keyed=streams(3, framing=Framing.RAW))
    checks = list_checks_of(replace(old, dropped_states=frozenset("never")), new)
    assert [len(check.pairs) for check in of_kind(checks, GroupCheck)] == [3, 1, 2, 2]
    assert {check.slot for check in of_kind(checks, GroupCheck)} == {Slot.RAW_KEYED}
    assert len(of_kind(checks, RecordCheck)) == 5
    with pytest.raises(IntegrityError, match="is not in the result"):
        list_checks_of(replace(old, dropped_states=frozenset("never")), replace(new, raw_keyed=()))


def directory(subtask: int, key_groups: KeyGroupRange, *names: str) -> Database:
    files = tuple(DatabaseFile(name, Extent(subtask + 1, i * 10, 10)) for i, name in enumerate(names or ("1.sst",)))
    return Database(subtask, key_groups, Extent(subtask + 1, 100, 1), b"h", None, files)


def operator_with_directories(parallelism: int, *names: str) -> Operator:
    ranges = [key_group_range(MAX_PARALLELISM, parallelism, i) for i in range(parallelism)]
    databases = tuple(directory(i, own, *names) for i, own in enumerate(ranges))
    return operator("op", parallelism, MAX_PARALLELISM, databases=databases)


def test_every_file_of_unchanged_directories_is_listed() -> None:
    unchanged = operator_with_directories(2, "1.sst", "CURRENT")
    file_checks = of_kind(list_checks_of(unchanged, unchanged), FileCheck)
    assert [check.pair.name for check in file_checks] == [
        name for subtask in (0, 1) for name in (f"the states of subtask {subtask}", "1.sst", "CURRENT")
    ]
    assert [weight for weight, _ in list_checks_of(unchanged, unchanged).units] == [2, 20, 20] * 2


def directory_files(subtask: int, copy_count: int = 1, small_count: int = 1) -> DirectoryFiles:
    def pairs(count: int, kind: str) -> tuple[FilePair, ...]:
        return tuple(FilePair(subtask, f"{kind}{i}", Extent(1, 0, 5), Extent(2, 0, 5)) for i in range(count))

    return DirectoryFiles(subtask, 0, pairs(copy_count, "copy"), pairs(small_count, "small"), 0)


def test_copied_files_of_directories_proven_by_files_are_listed() -> None:
    unchanged = operator_with_directories(2)
    checks = list_checks_of(
        unchanged,
        unchanged,
        one=directory_files(0, copy_count=2),
        other=directory_files(1, copy_count=0, small_count=2),
    )
    assert [(check.operator_index, check.pair.name) for check in of_kind(checks, FileCheck)] == [
        (1, "copy0"),
        (1, "copy1"),
    ]
    assert [(check.operator_index, check.pair.subtask, check.pair.name) for check in checks.small_files] == [
        (1, 0, "small0"),
        (1, 1, "small0"),
        (1, 1, "small1"),
    ]
    assert len(checks.units) == 2


def key_group_ranges(checks: Checks, *, in_result: bool) -> list[tuple[int, int]]:
    ranges = []
    for check in of_kind(checks, RecordCheck):
        assert isinstance(check.record_source.place, DatabasePlace)
        if check.in_result is in_result:
            ranges.append(check.record_source.place.key_groups)
    return ranges


@pytest.mark.parametrize(
    ("proven_subtasks", "result_ranges", "source_ranges"),
    [
        ([], [(0, 2), (3, 5), (6, 7)], [(0, 3), (4, 7)]),
        ([0], [(3, 5), (6, 7)], [(3, 3), (4, 7)]),
        ([1], [(0, 2), (6, 7)], [(0, 2), (6, 7)]),
        ([0, 2], [(3, 5)], [(3, 3), (4, 5)]),
        ([0, 1], [(6, 7)], [(6, 7)]),
        ([0, 1, 2], [], []),
    ],
)
def test_records_of_key_groups_not_proven_by_files_are_listed(
    proven_subtasks: Sequence[int], result_ranges: list[tuple[int, int]], source_ranges: list[tuple[int, int]]
) -> None:
    old, new = operator_with_directories(2), operator_with_directories(3)
    checks = list_checks_of(old, new, **{f"of {i}": directory_files(i) for i in proven_subtasks})
    assert key_group_ranges(checks, in_result=True) == result_ranges
    assert key_group_ranges(checks, in_result=False) == source_ranges
    assert {check.operator_index for check in of_kind(checks, RecordCheck)} <= {1}


def test_contiguous_key_groups_of_one_directory_are_read_at_once() -> None:
    checks = list_checks_of(operator_with_directories(1), operator_with_directories(3), of_one=directory_files(1))
    assert key_group_ranges(checks, in_result=False) == [(0, 2), (6, 7)]
    checks = list_checks_of(operator_with_directories(1), operator_with_directories(5), of_one=directory_files(1))
    assert key_group_ranges(checks, in_result=True) == [(0, 1), (4, 4), (5, 6), (7, 7)]
    assert key_group_ranges(checks, in_result=False) == [(0, 1), (4, 7)]


def test_raw_keyed_state_beside_directories_proven_by_files_is_compared() -> None:
    old = replace(operator_with_directories(2), raw_keyed=streams(2, framing=Framing.RAW))
    new = replace(operator_with_directories(3), raw_keyed=streams(3, framing=Framing.RAW))
    checks = list_checks_of(old, new, one=directory_files(0), two=directory_files(1), three=directory_files(2))
    assert sum(len(check.pairs) for check in of_kind(checks, GroupCheck)) == MAX_PARALLELISM
    with pytest.raises(IntegrityError, match="is not in the result"):
        list_checks_of(
            old, replace(new, raw_keyed=()), one=directory_files(0), two=directory_files(1), three=directory_files(2)
        )


def test_threads_suffice_for_bytewise_or_small_checks() -> None:
    plain = GroupPair(0, Extent(1, 0, 1), Extent(1, 0, 1))
    group = GroupCheck(0, "op", Slot.KEYED, (plain,))
    translated = GroupCheck(0, "op", Slot.KEYED, (plain, plain._replace(id_map=(1, 0))))
    file = FileCheck(0, "op", directory_files(0).copies[0])
    elements = ElementCheck(0, "op", Slot.OPERATOR, False, 0, "a", SPLIT, ())
    large_size = LITTLE_BYTES + 1
    for check, is_bytewise in ((group, True), (file, True), (translated, False), (elements, False)):
        assert Checks([(large_size, check)], []).threads_suffice is is_bytewise
        assert Checks([(1, check)] * (LITTLE_UNITS + 1), []).threads_suffice is is_bytewise
        assert Checks([(1, check), (large_size, group)], []).threads_suffice
