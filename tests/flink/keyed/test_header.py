"""Headers of keyed and operator streams: read, written, merged, and what cannot be merged."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.flink.keyed.header import merge_keyed_headers, read_keyed_header, write_keyed_header
from rescale.flink.metadata.handles import DistributionMode, OperatorStateOffsets
from rescale.flink.operator_state import (
    OperatorStateHeader,
    element_extents,
    merge_operator_state_headers,
    read_operator_state_header,
    write_operator_state_header,
)
from rescale.flink.serializers.reading import type_name
from rescale.flink.serializers.snapshot import UNKNOWN, SerializerSnapshot, UnknownSerializerError
from rescale.flink.state_meta_info import StateKind
from rescale.text.errors import SnapshotError
from support.snapshot_bytes import (
    CUSTOM,
    HIDING,
    INT,
    LONG,
    STRING,
    VOID_NAMESPACE,
    broadcast_state,
    i32,
    keyed_header,
    keyed_state,
    list_of,
    operator_header,
    operator_list,
    pojo,
    state,
)

TIMERS = state("_timer_state/event_user-timers", 3, {}, {"VALUE_SERIALIZER": LONG})
STATES = {
    "total": keyed_state("total"),
    "seen": keyed_state("seen", list_of(STRING), "LIST"),
    "names": keyed_state("names", STRING),
    "_timer_state/event_user-timers": TIMERS,
}
PLAIN_POJO = pojo({"a": INT})
POJO_WITH_RUSH = pojo({"a": INT}, {"com.example.Rush": LONG})
POJO_WITH_BULK = pojo({"a": INT}, {"com.example.Bulk": LONG})
POJO_WITH_OTHER_RUSH = pojo({"a": INT}, {"com.example.Rush": INT})

state_names = st.lists(st.sampled_from(sorted(STATES)), unique=True)


def parsed_keyed_header(*states: bytes, **options: object) -> object:
    return read_keyed_header(keyed_header(*states, **options), "a file")


def test_keyed_header_is_read() -> None:
    header = read_keyed_header(keyed_header(*STATES.values(), key=LONG, compressed=True), "a file")
    assert header.compressed
    assert type_name(header.key_serializer) == "Long"
    assert [info.name for info in header.states] == list(STATES)
    assert [info.state_type for info in header.states] == ["VALUE", "LIST", "VALUE", "TIMERS"]
    assert header.states[0].kind is StateKind.KEY_VALUE
    assert [name for name, _ in header.states[0].serializers] == ["VALUE_SERIALIZER", "NAMESPACE_SERIALIZER"]


@given(state_names, st.sampled_from([INT, STRING, POJO_WITH_RUSH]), st.booleans())
def test_keyed_header_is_written_back_unchanged(names: list[str], key: bytes, compressed: bool) -> None:
    data = keyed_header(*(STATES[name] for name in names), key=key, compressed=compressed)
    assert write_keyed_header(read_keyed_header(data, "a file")) == data


@given(state_names, state_names, st.sampled_from([(5, False), (6, False), (6, True)]))
def test_operator_header_is_written_back_unchanged(lists: list[str], maps: list[str], form: tuple[int, bool]) -> None:
    data = operator_header(
        tuple(map(operator_list, lists)), tuple(map(broadcast_state, maps)), version=form[0], compressed=form[1]
    )
    header = read_operator_state_header(data, "a file")
    assert (header.version, header.compressed) == form
    assert [info.name for info in header.list_states] == lists
    assert [info.state_type for info in header.broadcast_states] == ["BROADCAST"] * len(maps)
    assert write_operator_state_header(header) == data


@given(st.lists(state_names, min_size=1, max_size=4))
def test_merged_states_keep_their_bytes_and_have_id_maps(name_lists: list[list[str]]) -> None:
    sources = [parsed_keyed_header(*(STATES[name] for name in names)) for names in name_lists]
    merged, id_maps = merge_keyed_headers(sources)
    names_in_order = list(dict.fromkeys(name for names in name_lists for name in names))
    assert [info.name for info in merged.states] == names_in_order
    assert [info.raw for info in merged.states] == [STATES[name] for name in names_in_order]
    for names, ids in zip(name_lists, id_maps, strict=True):
        assert [merged.states[i].name for i in ids] == names
    merged_twice = merge_keyed_headers([merged, *sources])
    assert merged_twice.header == merged
    assert merged_twice.id_maps[1:] == id_maps


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_snapshot_with_all_subclasses_is_kept_when_headers_are_merged(order: tuple[int, ...]) -> None:
    both = pojo({"a": INT}, {"com.example.Bulk": LONG, "com.example.Rush": LONG})
    values = [(PLAIN_POJO, POJO_WITH_RUSH, both)[i] for i in order]
    merged = merge_keyed_headers(
        [parsed_keyed_header(keyed_state("orders", list_of(value), "LIST")) for value in values]
    )
    assert merged.header.states[0].raw == keyed_state("orders", list_of(both), "LIST")
    merged_by_key = merge_keyed_headers([parsed_keyed_header(key=value) for value in values])
    assert write_keyed_header(merged_by_key.header) == keyed_header(key=both)
    lists = [parsed_operator_header((operator_list("orders", value),)) for value in values]
    assert merge_operator_state_headers(lists).list_states[0].raw == operator_list("orders", both)


def test_equal_headers_are_compared_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow, wide = (
        parsed_keyed_header(keyed_state("orders", list_of(value), "LIST"), key=value)
        for value in (PLAIN_POJO, POJO_WITH_RUSH)
    )
    compared_snapshots = []
    covers = SerializerSnapshot.covers

    def recorded_covers(mine: SerializerSnapshot, other: SerializerSnapshot) -> bool:
        compared_snapshots.append(mine)
        return covers(mine, other)

    monkeypatch.setattr(SerializerSnapshot, "covers", recorded_covers)
    assert merge_keyed_headers([*[narrow] * 500, wide]).header == wide
    assert len(compared_snapshots) < 50


def test_subclasses_of_different_headers_are_merged() -> None:
    both = pojo({"a": INT}, {"com.example.Rush": LONG, "com.example.Bulk": LONG})
    headers = [
        parsed_keyed_header(keyed_state("orders", list_of(value), "LIST"))
        for value in (PLAIN_POJO, POJO_WITH_RUSH, POJO_WITH_BULK, POJO_WITH_RUSH)
    ]
    merged = merge_keyed_headers(headers)
    assert merged.header.states[0].raw == keyed_state("orders", list_of(both), "LIST")
    assert merge_keyed_headers([merged.header, *headers]).header == merged.header
    assert set(merged.id_maps) == {(0,)}
    merged_by_key = merge_keyed_headers(
        [parsed_keyed_header(key=value) for value in (PLAIN_POJO, POJO_WITH_RUSH, POJO_WITH_BULK)]
    )
    assert write_keyed_header(merged_by_key.header) == keyed_header(key=both)
    lists = [
        parsed_operator_header((operator_list("orders", value, "UNION"),)) for value in (POJO_WITH_RUSH, POJO_WITH_BULK)
    ]
    assert merge_operator_state_headers(lists).list_states[0].raw == operator_list("orders", both, "UNION")


@pytest.mark.parametrize(
    ("header", "other", "state_name"),
    [
        (keyed_header(keyed_state("a", INT)), keyed_header(keyed_state("a", LONG)), "a"),
        (keyed_header(keyed_state("a", LONG)), keyed_header(keyed_state("a", LONG, "REDUCING")), "a"),
        (keyed_header(keyed_state("a", POJO_WITH_RUSH)), keyed_header(keyed_state("a", POJO_WITH_OTHER_RUSH)), "a"),
        (keyed_header(keyed_state("a", POJO_WITH_RUSH, "LIST")), keyed_header(keyed_state("a", POJO_WITH_BULK)), "a"),
        (keyed_header(keyed_state("a")), keyed_header(keyed_state("b"), keyed_state("b")), "b"),
        (keyed_header(key=INT), keyed_header(key=LONG), None),
        (keyed_header(key=POJO_WITH_RUSH), keyed_header(key=POJO_WITH_OTHER_RUSH), None),
        (keyed_header(), keyed_header(compressed=True), None),
    ],
)
def test_contradicting_keyed_headers_are_refused(header: bytes, other: bytes, state_name: str | None) -> None:
    for pair in ((header, other), (other, header)):
        with pytest.raises(SnapshotError) as error:
            merge_keyed_headers([read_keyed_header(data, "a file") for data in pair])
        assert error.value.state == state_name


@pytest.mark.parametrize(
    ("value", "other", "message"),
    [
        (INT, LONG, "VALUE of Int and VALUE of Long"),
        (POJO_WITH_RUSH, POJO_WITH_OTHER_RUSH, "with serializers that differ"),
    ],
)
def test_contradicting_states_are_named_by_their_types(value: bytes, other: bytes, message: str) -> None:
    with pytest.raises(SnapshotError) as error:
        merge_keyed_headers([parsed_keyed_header(keyed_state("a", serializer)) for serializer in (value, other)])
    assert message in str(error.value.found)


def parsed_operator_header(
    lists: tuple[bytes, ...] = (), maps: tuple[bytes, ...] = (), **options: object
) -> OperatorStateHeader:
    return read_operator_state_header(operator_header(lists, maps, **options), "a file")


def test_operator_headers_merge_by_name() -> None:
    first = parsed_operator_header((operator_list("a"), operator_list("u", mode="UNION")), (broadcast_state("m"),))
    other = parsed_operator_header(
        (operator_list("b"), operator_list("a")), (broadcast_state("n"), broadcast_state("m"))
    )
    merged = merge_operator_state_headers([first, other])
    assert [info.name for info in merged.list_states] == ["a", "u", "b"]
    assert [info.name for info in merged.broadcast_states] == ["m", "n"]
    assert merge_operator_state_headers([merged, other, first]) == merged


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (parsed_operator_header((operator_list("a", INT),)), parsed_operator_header((operator_list("a", LONG),))),
        (parsed_operator_header((operator_list("a"),)), parsed_operator_header((operator_list("a", mode="UNION"),))),
        (
            parsed_operator_header((), (broadcast_state("a", INT),)),
            parsed_operator_header((), (broadcast_state("a", LONG),)),
        ),
        (parsed_operator_header(version=5), parsed_operator_header(version=6)),
        (parsed_operator_header(), parsed_operator_header(compressed=True)),
    ],
)
def test_contradicting_operator_headers_are_refused(first: OperatorStateHeader, other: OperatorStateHeader) -> None:
    with pytest.raises(SnapshotError):
        merge_operator_state_headers([first, other])


def test_contradicting_operator_states_are_named_by_their_types() -> None:
    with pytest.raises(SnapshotError) as error:
        merge_operator_state_headers(
            [parsed_operator_header((operator_list("a", serializer),)) for serializer in (INT, LONG)]
        )
    assert error.value.found == "SPLIT_DISTRIBUTE of Int and SPLIT_DISTRIBUTE of Long"
    assert "same types" in str(error.value.advice)


KEYED_HEADER = keyed_header(*STATES.values(), key=POJO_WITH_RUSH)
OPERATOR_HEADER = operator_header((operator_list("a", POJO_WITH_RUSH),), (broadcast_state("m"),), compressed=True)


@pytest.mark.parametrize(
    ("read", "data"), [(read_keyed_header, KEYED_HEADER), (read_operator_state_header, OPERATOR_HEADER)]
)
def test_header_that_is_too_short_or_too_long_is_refused(read: object, data: bytes) -> None:
    """A header must end where the first key group or element begins."""
    for damaged_data in (*(data[:end] for end in range(len(data))), data + b"\0"):
        with pytest.raises(SnapshotError) as error:
            read(damaged_data, "a file")
        assert error.value.path == "a file"
        assert 0 <= error.value.offset <= len(data)


@pytest.mark.parametrize(
    "data",
    [
        i32(5) + KEYED_HEADER[4:],
        keyed_header(state("a", 5, {}, {"VALUE_SERIALIZER": LONG})),
        keyed_header(state("a", -1, {}, {"VALUE_SERIALIZER": LONG})),
        keyed_header()[:-2] + struct.pack(">h", -1),
    ],
)
def test_malformed_keyed_header_is_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        read_keyed_header(data, "a file")


@pytest.mark.parametrize(
    "data", [i32(4) + OPERATOR_HEADER[4:], i32(7) + OPERATOR_HEADER[4:], OPERATOR_HEADER[:-1] + b"y"]
)
def test_malformed_operator_header_is_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        read_operator_state_header(data, "a file")


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("names", [["total"], ["total", "seen", "größe", "_timer_state/event_user-timers"]])
def test_keyed_states_with_unknown_serializers_are_delimited(names: list[str], compressed: bool) -> None:
    """A state with an unknown serializer is last or first; only the class of the serializer is known."""
    known_states = [STATES[name] if name in STATES else keyed_state(name, list_of(CUSTOM), "LIST") for name in names]
    for states in ([*known_states, keyed_state("price", CUSTOM)], [keyed_state("price", CUSTOM), *known_states]):
        data = keyed_header(*states, key=CUSTOM, compressed=compressed)
        header = read_keyed_header(data, "a file")
        assert [info.raw for info in header.states] == states
        assert type_name(header.key_serializer) == "com.example.Money$Snapshot"
        price = next(info for info in header.states if info.name == "price")
        assert [(name, type_name(serializer)) for name, serializer in price.serializers] == [
            ("VALUE_SERIALIZER", "com.example.Money$Snapshot"),
            ("NAMESPACE_SERIALIZER", "VoidNamespace"),
        ]
        assert price.serializers[0][1].values(UNKNOWN) == ("com.example.Money$Snapshot",)
        assert write_keyed_header(header) == data


def test_map_of_forst_with_an_unknown_serializer_is_delimited() -> None:
    """Since Flink 2.1, a map of the asynchronous state API has a serializer of its user keys, too."""
    serializers = {"VALUE_SERIALIZER": CUSTOM, "USER_KEY_SERIALIZER": STRING, "NAMESPACE_SERIALIZER": VOID_NAMESPACE}
    pages = state("pages", StateKind.KEY_VALUE_V2, {"KEYED_STATE_TYPE": "MAP"}, serializers)
    header = read_keyed_header(keyed_header(pages, STATES["total"]), "a file")
    assert [(info.name, info.kind) for info in header.states] == [
        ("pages", StateKind.KEY_VALUE_V2),
        ("total", StateKind.KEY_VALUE),
    ]
    assert [name for name, _ in header.states[0].serializers] == list(serializers)


@pytest.mark.parametrize("form", [(5, False), (6, False), (6, True)])
@pytest.mark.parametrize("lists", [(), (operator_list("l", CUSTOM), operator_list("other", STRING, "UNION"))])
@pytest.mark.parametrize("maps", [(), (broadcast_state("m", CUSTOM), broadcast_state("other"))])
def test_operator_states_with_unknown_serializers_are_delimited(
    lists: tuple[bytes, ...], maps: tuple[bytes, ...], form: tuple[int, bool]
) -> None:
    data = operator_header(lists, maps, version=form[0], compressed=form[1])
    header = read_operator_state_header(data, "a file")
    assert [info.raw for info in header.list_states] == list(lists)
    assert [info.raw for info in header.broadcast_states] == list(maps)
    assert write_operator_state_header(header) == data


def test_header_with_ambiguous_state_boundaries_is_refused_as_unknown() -> None:
    """This is no damage: such a header can still be moved unchanged."""
    for read, data in (
        (read_keyed_header, keyed_header(keyed_state("a", HIDING))),
        (read_keyed_header, keyed_header(STATES["total"], key=HIDING)),
        (read_operator_state_header, operator_header((operator_list("a", HIDING),))),
        (read_operator_state_header, operator_header((), (broadcast_state("a", HIDING),))),
    ):
        with pytest.raises(UnknownSerializerError) as error:
            read(data, "a file")
        assert error.value.class_name == "com.example.Money$Snapshot"


@pytest.mark.parametrize("missing_bytes", range(1, 60, 7))
def test_truncated_header_with_an_unknown_serializer_is_refused(missing_bytes: int) -> None:
    data = keyed_header(keyed_state("price", CUSTOM), STATES["total"])
    with pytest.raises((SnapshotError, UnknownSerializerError)):
        read_keyed_header(data[:-missing_bytes], "a file")


def test_element_ends_at_the_next_element_of_any_state() -> None:
    states = (
        OperatorStateOffsets("a", DistributionMode.SPLIT_DISTRIBUTE, (50, 20)),
        OperatorStateOffsets("none", DistributionMode.SPLIT_DISTRIBUTE, ()),
        OperatorStateOffsets("u", DistributionMode.UNION, (30,)),
        OperatorStateOffsets("m", DistributionMode.BROADCAST, (60,)),
    )
    assert element_extents(states, 70) == (((50, 10), (20, 10)), (), ((30, 20),), ((60, 10),))


@pytest.mark.parametrize(
    ("mode", "offsets"),
    [
        (DistributionMode.SPLIT_DISTRIBUTE, (-1,)),
        (DistributionMode.UNION, (0, 11)),
        (DistributionMode.BROADCAST, ()),
        (DistributionMode.BROADCAST, (1, 2)),
    ],
)
def test_impossible_element_offsets_are_refused(mode: DistributionMode, offsets: tuple[int, ...]) -> None:
    with pytest.raises(SnapshotError) as error:
        element_extents([OperatorStateOffsets("a", mode, offsets)], 10)
    assert error.value.state == "a"
