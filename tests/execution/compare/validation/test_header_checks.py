"""Headers of a result agree with those of its source, and streams of timers list their services."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest

from rescale.execution.compare.validation.coverage import check_raw_timers, check_rekeyed
from rescale.execution.compare.validation.headers import ElementHeaderComparer, KeyedHeaderComparer, distinct_by_header
from rescale.flink.key_groups import KeyGroupRange, key_group_range
from rescale.flink.keyed.header import KeyedHeader, read_keyed_header, write_keyed_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keyed.timers.heap_timers import TimerService, timer_header
from rescale.flink.operator_state import OperatorStateHeader
from rescale.snapshot.keyed_state import Database, KeyedStream
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import ElementStream, Operator
from rescale.text.errors import IntegrityError
from support.snapshot_bytes import INT, LONG, STRING, VOID_NAMESPACE, keyed_header, keyed_state, parsed
from support.synthetic import element_stream, keyed_stream, operator


def header_of(*names: str, value: bytes = LONG) -> KeyedHeader:
    return read_keyed_header(keyed_header(*(keyed_state(name, value=value) for name in names)), "")


A, AB, BA, B = header_of("a"), header_of("a", "b"), header_of("b", "a"), header_of("b")


def stream(header: KeyedHeader, subtask: int = 0) -> KeyedStream:
    return keyed_stream(subtask, {}, Framing.CANONICAL, header, first=0, last=1)


def unparsed_stream(raw: bytes, subtask: int = 0) -> KeyedStream:
    return keyed_stream(subtask, {}, Framing.CANONICAL, raw, first=0, last=1)


def directory(header: KeyedHeader) -> Database:
    raw = write_keyed_header(header)
    return Database(0, KeyGroupRange(0, 1), Extent(1, 0, len(raw)), raw, header, ())


def compare(
    old_holders: Sequence[KeyedStream | Database],
    new_holder: KeyedStream | Database,
    *,
    left_out: Collection[str] = (),
    timers: Sequence[KeyedStream] = (),
) -> dict[bytes, tuple[int, ...]]:
    return KeyedHeaderComparer("op", timers, left_out).compare(old_holders, new_holder)


def assert_refused(
    old_holders: Sequence[KeyedStream | Database], new_holder: KeyedStream | Database, message: str, **more: object
) -> None:
    with pytest.raises(IntegrityError, match=message) as caught:
        compare(old_holders, new_holder, **more)  # type: ignore[arg-type]
    assert caught.value.operator == "op"


def test_equal_headers_pass_unparsed_and_different_unparsed_ones_are_refused() -> None:
    assert compare([unparsed_stream(b"x"), unparsed_stream(b"x", 1)], unparsed_stream(b"x")) == {}
    for old_holders, new_holder in (
        ([unparsed_stream(b"x")], unparsed_stream(b"y")),
        ([stream(A)], unparsed_stream(b"y")),
        ([unparsed_stream(b"x")], stream(A)),
    ):
        assert_refused(old_holders, new_holder, "differs from the source's")
    assert_refused([stream(A), unparsed_stream(b"x", 1)], stream(A), "differs from the source's")


def test_state_ids_are_translated_to_those_of_the_result() -> None:
    assert compare([stream(A), stream(B, 1)], stream(AB)) == {stream(B).header: (1,)}
    assert compare([stream(AB), stream(BA, 1)], stream(BA)) == {stream(AB).header: (1, 0)}
    assert compare([stream(AB), stream(A, 1)], stream(AB)) == {}


@pytest.mark.parametrize(
    ("old_holders", "new_holder", "message"),
    [
        ([A, B], A, "header of subtask 0: result and source differ"),
        ([AB], A, "header of subtask 0: result and source differ"),
        ([A], AB, "that the source does not have"),
        ([AB, A], header_of("a", "b", "c"), "that the source does not have"),
        ([A], header_of("a", value=STRING), "does not agree with the source's"),
        ([A], replace(A, compressed=True), "does not agree with the source's"),
        ([A], replace(A, key_serializer=parsed(LONG)), "does not agree with the source's"),
        ([A], header_of("a", "a"), "does not agree with the source's"),
    ],
)
def test_different_header_is_found(old_holders: Sequence[KeyedHeader], new_holder: KeyedHeader, message: str) -> None:
    assert_refused([stream(old_holder, i) for i, old_holder in enumerate(old_holders)], stream(new_holder), message)


def test_directory_may_know_states_without_records() -> None:
    """Its header must list all states of the source. Whether Flink compressed the source does not matter here."""
    compare([directory(A)], directory(AB))
    assert_refused([directory(AB)], directory(A), "header of subtask 0: result and source differ")
    compare([stream(replace(AB, compressed=True))], directory(AB))
    assert_refused([directory(A)], stream(AB), "that the source does not have")


@pytest.mark.parametrize(("subtask", "max_parallelism"), [(0, 8), (1, 8), (0, 128), (1, 128), (0, 3), (1, 3)])
def test_headers_of_all_directories_are_compared_if_records_move(subtask: int, max_parallelism: int) -> None:
    """Where records change key groups, each subtask may get some from each subtask of the source."""

    def operator_with(max_parallelism: int, *headers: KeyedHeader) -> Operator:
        directories = [
            replace(directory(header), subtask=i, key_groups=key_group_range(max_parallelism, len(headers), i))
            for i, header in enumerate(headers)
        ]
        return operator("op", len(headers), max_parallelism, databases=tuple(directories))

    check_rekeyed(operator_with(8, AB, AB), operator_with(max_parallelism, AB, AB))
    headers = [AB, AB]
    headers[subtask] = header_of("a", "b", value=STRING)
    with pytest.raises(IntegrityError, match=f"the header of subtask {subtask} does not agree with the source's"):
        check_rekeyed(operator_with(8, AB, AB), operator_with(max_parallelism, *headers))


def test_dropped_states_are_in_no_header() -> None:
    compare([stream(AB)], stream(A), left_out=["b"])
    assert compare([stream(BA)], stream(A), left_out=["b"]) == {stream(BA).header: (-1, 0)}
    assert_refused([stream(AB)], stream(AB), "result and source differ", left_out=["b"])
    assert_refused([stream(AB)], stream(A), "result and source differ")
    assert_refused([stream(AB)], stream(B), "result and source differ", left_out=["b"])


SERVICE = TimerService("timers", parsed(LONG), parsed(VOID_NAMESPACE))
OTHER_SERVICE = TimerService("more", parsed(LONG), parsed(VOID_NAMESPACE))


def raw_timers(
    subtask: int, parallelism: int, max_parallelism: int, *services: TimerService, first: int | None = None
) -> KeyedStream:
    own = key_group_range(max_parallelism, parallelism, subtask)
    begin = own.first if first is None else first
    raw_stream = keyed_stream(subtask, {}, Framing.RAW, first=begin, last=begin + len(own) - 1)
    return replace(raw_stream, timer_services=services, parsed=timer_header(services) if services else None)


def with_timers(parallelism: int, max_parallelism: int, *services: TimerService) -> Operator:
    streams = (raw_timers(i, parallelism, max_parallelism, *services) for i in range(parallelism))
    return operator("op", parallelism, max_parallelism, raw_keyed=tuple(streams))


def test_timers_that_become_states_are_in_the_header() -> None:
    keyed_by_long = replace(A, key_serializer=parsed(LONG))
    timers = [raw_timers(0, 1, 8, SERVICE)]
    both = replace(keyed_by_long, states=(*keyed_by_long.states, *timer_header([SERVICE]).states))
    compare([stream(keyed_by_long)], stream(both), timers=timers)
    compare([], stream(timer_header([SERVICE])), timers=timers)
    assert_refused([stream(keyed_by_long)], stream(keyed_by_long), "result and source differ", timers=timers)
    with_more_timers = replace(keyed_by_long, states=(*both.states, *timer_header([OTHER_SERVICE]).states))
    assert_refused([stream(keyed_by_long)], stream(with_more_timers), "that the source does not have", timers=timers)
    compressed_streams = stream(replace(keyed_by_long, compressed=True)), stream(replace(both, compressed=True))
    compare(compressed_streams[:1], compressed_streams[1], timers=timers)


def as_streams(parallelism: int, max_parallelism: int, header: KeyedHeader) -> Operator:
    ranges = (key_group_range(max_parallelism, parallelism, i) for i in range(parallelism))
    keyed = (
        keyed_stream(i, {}, Framing.CANONICAL, header, first=own.first, last=own.last) for i, own in enumerate(ranges)
    )
    return operator("op", parallelism, max_parallelism, keyed=tuple(keyed))


def test_moved_timers_are_either_in_the_header_or_in_raw_keyed_state() -> None:
    """An operator may have timers and no other keyed state."""
    keyed_by_long = replace(A, key_serializer=parsed(LONG))
    both = replace(keyed_by_long, states=(*keyed_by_long.states, *timer_header([SERVICE]).states))
    raw = with_timers(2, 8, SERVICE).raw_keyed
    old = replace(as_streams(2, 8, keyed_by_long), raw_keyed=raw)
    raw_in_result = with_timers(3, 16, SERVICE).raw_keyed
    check_rekeyed(old, as_streams(3, 16, both))
    check_rekeyed(old, replace(as_streams(3, 16, keyed_by_long), raw_keyed=raw_in_result))
    check_rekeyed(replace(old, keyed=()), as_streams(3, 16, timer_header([SERVICE])))
    for new, message in (
        (as_streams(3, 16, keyed_by_long), "header of subtask 0"),
        (replace(as_streams(3, 16, both), raw_keyed=raw_in_result), "header of subtask 0"),
    ):
        with pytest.raises(IntegrityError, match=message):
            check_rekeyed(old, new)
    with pytest.raises(IntegrityError, match="subtasks with keyed state"):
        check_rekeyed(replace(old, keyed=()), operator("op", 3, 16))


def test_rewritten_streams_list_the_states_of_all_source_streams() -> None:
    """This holds even if the key groups stay the same."""
    old = as_streams(2, 8, A)
    old = replace(old, keyed=(old.keyed[0], as_streams(2, 8, B).keyed[1]))
    check_rekeyed(old, as_streams(2, 8, AB))
    with pytest.raises(IntegrityError, match="header of subtask 0: result and source differ"):
        check_rekeyed(old, as_streams(2, 8, A))


def test_timers_stored_twice_are_in_the_result_once() -> None:
    """The timers stand in the header or in raw keyed state, even if other states are left out."""
    keyed_by_long = replace(A, key_serializer=parsed(LONG))
    both = replace(keyed_by_long, states=(*keyed_by_long.states, *timer_header([SERVICE]).states))
    old = replace(as_streams(2, 8, both), raw_keyed=with_timers(2, 8, SERVICE).raw_keyed)
    raw_in_result = with_timers(3, 16, SERVICE).raw_keyed
    assert old.duplicate_timers
    check_rekeyed(old, as_streams(3, 16, both))
    check_rekeyed(old, replace(as_streams(3, 16, keyed_by_long), raw_keyed=raw_in_result))
    with pytest.raises(IntegrityError, match="header of subtask 0"):
        check_rekeyed(old, replace(as_streams(3, 16, both), raw_keyed=raw_in_result))
    with pytest.raises(IntegrityError, match="header of subtask 0"):
        check_rekeyed(old, as_streams(3, 16, keyed_by_long))
    without_state = replace(old, dropped_states=frozenset("a"))
    check_rekeyed(without_state, replace(as_streams(3, 16, replace(keyed_by_long, states=())), raw_keyed=raw_in_result))
    check_rekeyed(without_state, as_streams(3, 16, timer_header([SERVICE])))
    with pytest.raises(IntegrityError, match="header of subtask 0"):
        check_rekeyed(without_state, replace(as_streams(3, 16, keyed_by_long), raw_keyed=raw_in_result))


def test_each_header_is_compared_with_the_headers_of_its_sources() -> None:
    """The comparer does not use its cached answer about some old streams for other old streams."""
    comparer = KeyedHeaderComparer("op")
    comparer.compare([stream(A)], stream(A))
    comparer.compare([stream(AB)], stream(AB))
    for old_holders, new_holder in (([AB], A), ([A], AB)):
        with pytest.raises(IntegrityError):
            comparer.compare(list(map(stream, old_holders)), stream(new_holder))
    assert comparer.compare([stream(AB)], stream(BA)) == {stream(AB).header: (1, 0)}
    assert comparer.compare([stream(BA)], stream(BA)) == {}


def test_first_stream_of_each_distinct_header_is_compared() -> None:
    assert [differing.subtask for differing in distinct_by_header([stream(A, 3), stream(B, 4), stream(A, 5)])] == [3, 4]


# Timers that stay raw keyed state.


def test_raw_timers_have_the_key_groups_of_their_subtask() -> None:
    """At the same max parallelism, a subtask may have no timer stream."""
    old, new = with_timers(2, 8, SERVICE), with_timers(3, 8, SERVICE)
    check_raw_timers(old, new)
    check_raw_timers(old, replace(new, raw_keyed=new.raw_keyed[1:]))
    moved = replace(new, raw_keyed=(raw_timers(0, 3, 8, SERVICE, first=1), *new.raw_keyed[1:]))
    with pytest.raises(IntegrityError, match="key groups of the timers of subtask 0"):
        check_raw_timers(old, moved)


def test_every_subtask_has_all_timer_services_if_max_parallelism_changes() -> None:
    old, new = with_timers(2, 8, SERVICE), with_timers(3, 16, SERVICE)
    check_raw_timers(old, new)
    check_raw_timers(old, replace(new, raw_keyed=()))
    for raw_streams in (new.raw_keyed[1:], new.raw_keyed[:2], new.raw_keyed[::-1], (*new.raw_keyed, new.raw_keyed[2])):
        with pytest.raises(IntegrityError, match="subtasks with raw timers"):
            check_raw_timers(old, replace(new, raw_keyed=raw_streams))
    with pytest.raises(IntegrityError, match="subtasks with raw timers"):
        check_raw_timers(operator("op", 2, 8), new)
    with_wrong_service = replace(new, raw_keyed=(*new.raw_keyed[:2], raw_timers(2, 3, 16, OTHER_SERVICE)))
    both = replace(old, raw_keyed=(raw_timers(0, 2, 8, SERVICE), raw_timers(1, 2, 8, SERVICE, OTHER_SERVICE)))
    check_raw_timers(both, with_timers(3, 16, SERVICE, OTHER_SERVICE))
    with pytest.raises(IntegrityError, match="timer services of subtask 0"):
        check_raw_timers(both, new)
    with pytest.raises(IntegrityError, match="timer services of subtask 2"):
        check_raw_timers(old, with_wrong_service)
    with pytest.raises(IntegrityError, match="timer services of subtask 0"):
        check_raw_timers(old, with_timers(3, 16, SERVICE, OTHER_SERVICE))
    int_service = TimerService("timers", parsed(INT), parsed(VOID_NAMESPACE))
    with pytest.raises(IntegrityError, match="timers of subtask 0 do not agree with the source's"):
        check_raw_timers(old, with_timers(3, 16, int_service))


# Operator state.


def listing_header(*names: str, compressed: bool = False, broadcast: Sequence[str] = ()) -> OperatorStateHeader:
    return OperatorStateHeader(6, compressed, header_of(*names).states, header_of(*broadcast).states)


def element_holder(header: OperatorStateHeader | bytes) -> ElementStream:
    return element_stream(0, {}, header)


def test_unparsed_operator_state_headers_pass_only_if_they_are_equal() -> None:
    ElementHeaderComparer("op").compare([element_holder(b"x"), element_holder(b"x")], element_holder(b"x"))
    for old_holders, new_holder in (
        ([b"x"], b"y"),
        ([listing_header("a")], b"y"),
        ([b"x"], listing_header("a")),
        ([listing_header("a"), b"x"], listing_header("a")),
    ):
        with pytest.raises(IntegrityError, match="differs from the source's"):
            ElementHeaderComparer("op").compare(
                [element_holder(old_holder) for old_holder in old_holders], element_holder(new_holder)
            )


@pytest.mark.parametrize(
    ("old_holders", "new_holder", "message"),
    [
        ([listing_header("a", "b")], listing_header("a"), "result and source differ"),
        ([listing_header("a"), listing_header("b")], listing_header("a"), "result and source differ"),
        ([listing_header("a")], listing_header("a", "b"), "that the source does not have"),
        ([listing_header("a")], listing_header("a", broadcast="b"), "that the source does not have"),
        ([listing_header("a", broadcast="b")], listing_header("a"), "result and source differ"),
        ([listing_header("a")], listing_header("a", compressed=True), "does not agree with the source's"),
        (
            [listing_header("a")],
            replace(listing_header("a"), list_states=header_of("a", value=STRING).states),
            "does not agree with the source's",
        ),
    ],
)
def test_different_operator_state_header_is_found(
    old_holders: Sequence[OperatorStateHeader], new_holder: OperatorStateHeader, message: str
) -> None:
    comparer = ElementHeaderComparer("op")
    for _ in range(2):  # a refused header is refused again
        with pytest.raises(IntegrityError, match=message) as caught:
            comparer.compare(list(map(element_holder, old_holders)), element_holder(new_holder))
        assert caught.value.operator == "op"


def test_operator_state_headers_are_merged() -> None:
    old_holders = [element_holder(listing_header("a", broadcast="x")), element_holder(listing_header("b"))]
    ElementHeaderComparer("op").compare(old_holders, element_holder(listing_header("b", "a", broadcast="x")))
