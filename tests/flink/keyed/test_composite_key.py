"""Ends and hashes of keys in composite keys, compared with keys built one by one; and damaged keys."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.flink.keyed.composite_key import CompositeKeys, composite_keys, key_offsets
from rescale.flink.keyed.header import KeyedHeader, read_keyed_header
from rescale.flink.keys.key_function import FunctionHash
from rescale.flink.keys.pojo_formulas import KNOWN_HASH
from rescale.text.errors import IntegrityError, RequestError, SnapshotError, UnsupportedError
from support.canonical import Record
from support.composite import TIME_WINDOW, composite_key, keyed, length_bytes, records_in_buffer, timer, timers
from support.java_composites import Tuple
from support.java_values import HASHABLE_LEAVES, JavaType
from support.snapshot_bytes import INT, LONG, STRING, VOID_NAMESPACE, keyed_header, nested, simple, state

LONG_KEY, TEXT = HASHABLE_LEAVES["Long"], HASHABLE_LEAVES["String"]
KEY_TYPES = {
    "Long": LONG_KEY,
    "String": TEXT,
    "Tuple2<String, Int>": Tuple([TEXT, HASHABLE_LEAVES["Int"]]),
    "Tuple2<Int, Boolean>": Tuple([HASHABLE_LEAVES["Int"], HASHABLE_LEAVES["Boolean"]]),
    "BigDecimal": HASHABLE_LEAVES["BigDecimal"],
}
FIXED_LENGTH_TYPES = ("Long", "Tuple2<Int, Boolean>")


class Kind(NamedTuple):
    """A kind of state: the serializer snapshot of its namespaces, and a strategy for `namespaces`."""

    namespace: bytes
    namespaces: st.SearchStrategy[bytes]
    state_type: str = "VALUE"
    is_variable: bool = False


VOID = st.just(b"\0")
WINDOWS = st.binary(min_size=16, max_size=16)
TEXTS = st.one_of(TEXT.values, st.just((7,) * 300)).map(TEXT.write)
KINDS = {
    "value": Kind(VOID_NAMESPACE, VOID),
    "map": Kind(VOID_NAMESPACE, VOID, "MAP"),
    "windowed": Kind(TIME_WINDOW, WINDOWS),
    "windowed map": Kind(TIME_WINDOW, WINDOWS, "MAP"),
    "named": Kind(STRING, TEXTS, is_variable=True),
    "named map": Kind(STRING, TEXTS, "MAP", is_variable=True),
    "_timer_state/event_user-timers": Kind(VOID_NAMESPACE, VOID, "TIMERS"),
    "_timer_state/event_window-timers": Kind(TIME_WINDOW, WINDOWS, "TIMERS"),
    "_timer_state/processing_named": Kind(STRING, TEXTS, "TIMERS", is_variable=True),
}


def header_of(key_type: JavaType, *names: str) -> KeyedHeader:
    states = [
        timers(name, key_type.snapshot, kind.namespace)
        if kind.state_type == "TIMERS"
        else keyed(name, kind.namespace, kind.state_type)
        for name, kind in KINDS.items()
        if not names or name in names
    ]
    return read_keyed_header(keyed_header(*states, key=key_type.snapshot), "a file")


def key_of(kind: Kind, ambiguous: bool, key: bytes, namespace: bytes, user_key: bytes = b"", time: int = 0) -> bytes:
    if kind.state_type == "TIMERS":
        return timer(time, key, namespace)
    user_key = user_key if kind.state_type == "MAP" else b""
    return composite_key(key, namespace, ambiguous=ambiguous and kind.is_variable, user_key=user_key)


@st.composite
def keys_of_records(draw: st.DrawFn) -> tuple[JavaType, list[Record], list[object]]:
    name = draw(st.sampled_from(sorted(KEY_TYPES)))
    key_type, records, values = KEY_TYPES[name], [], []
    for state_id, kind in draw(st.lists(st.sampled_from(list(enumerate(KINDS.values()))), min_size=1, max_size=9)):
        value = draw(key_type.values)
        namespace, user_key = draw(kind.namespaces), draw(st.binary(max_size=5))
        time = draw(st.integers(-(1 << 63), (1 << 63) - 1))
        key = key_of(kind, name not in FIXED_LENGTH_TYPES, key_type.write(value), namespace, user_key, time)
        records.append(Record(state_id, key, draw(st.binary(max_size=5))))
        values.append(value)
    return key_type, records, values


@given(keys_of_records())
def test_composite_keys_hash_as_the_key_values_in_them(drawn: tuple[JavaType, list[Record], list[object]]) -> None:
    key_type, records, values = drawn
    keys = composite_keys(header_of(key_type), KNOWN_HASH)
    assert keys.hash(records_in_buffer(records, range(len(records)))).tolist() == list(map(key_type.code, values))


@given(keys_of_records(), st.data())
def test_hash_function_gets_the_key_without_namespace(
    drawn: tuple[JavaType, list[Record], list[object]], data: st.DataObject
) -> None:
    key_type, records, values = drawn
    hashed_keys: list[bytes] = []

    def hash_function(key: bytes) -> int:
        hashed_keys.append(key)
        return len(hashed_keys)

    header = header_of(key_type)
    program = composite_keys(header, KNOWN_HASH)._key_program if data.draw(st.booleans()) else None
    keys = CompositeKeys(header, program, FunctionHash("own:hash", hash_function))
    if program is None:  # a namespace of fixed size tells where its key ends
        kinds = [list(KINDS.values())[record.state] for record in records]
        plain_indices = [i for i, kind in enumerate(kinds) if kind.state_type != "MAP" and not kind.is_variable]
        records, values = [records[i] for i in plain_indices], [values[i] for i in plain_indices]
    if records:
        assert keys.hash(records_in_buffer(records, range(len(records)))).tolist() == [*range(1, len(records) + 1)]
    assert hashed_keys == list(map(key_type.write, values))


@pytest.mark.parametrize("size", [0, 1, 127, 128, 254, 255, 256, 257, 65534, 65535, 65536])
def test_keys_with_lengths_of_one_or_more_bytes_are_hashed(size: int) -> None:
    """An ASCII text takes one byte for each character, and one or more bytes for its length."""
    value = (97,) * size
    key, header = TEXT.write(value), header_of(TEXT, "named", "named map")
    for state_id, user_key in ((0, b""), (1, b"entry")):
        composite = composite_key(key, key, ambiguous=True, user_key=user_key)
        (code,) = (
            composite_keys(header, KNOWN_HASH).hash(records_in_buffer([Record(state_id, composite, b"")], [0])).tolist()
        )
        assert code == TEXT.code(value)


def test_lengths_are_written_as_flink_writes_them() -> None:
    assert [length_bytes(n).hex() for n in (0, 1, 255, 256, 65535, 65536)] == [
        "00",
        "01",
        "ff",
        "0001",
        "ffff",
        "000001",
    ]
    composite = composite_key(b"\3k9", b"\6ns-x1", ambiguous=True)
    assert composite.hex() == "036b3903066e732d783106", "as Flink wrote it"


def assert_refused(header: KeyedHeader, state_id: int, key: bytes, what: str) -> IntegrityError:
    """Check that the key is refused although the record before it is right; return the error."""
    right_record = Record(0, TEXT.write((98,)) + b"\0", b"")
    with pytest.raises(IntegrityError, match=what) as caught:
        composite_keys(header, KNOWN_HASH).hash(records_in_buffer([right_record, Record(state_id, key, b"v")], [4, 7]))
    assert caught.value.state == header.states[state_id].name
    assert key[:64].hex() in caught.value.what
    assert "in key group 7" in caught.value.what
    return caught.value


KEY = TEXT.write((97,) * 300)
"""A key of 303 bytes, of which two hold the number of characters."""

NAMED_KEY = composite_key(KEY, KEY, ambiguous=True)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("value", KEY),
        ("value", KEY + b"\0\0"),
        ("windowed", KEY + bytes(15)),
        ("windowed", KEY + bytes(17)),
        ("map", KEY),
        ("windowed map", KEY + bytes(15)),
        ("named", KEY + KEY),
        ("named", KEY),
        ("named", NAMED_KEY[:-1]),
        ("named", NAMED_KEY + b"\0"),
        ("named", NAMED_KEY[: len(KEY)] + b"\0" + NAMED_KEY[len(KEY) + 1 :]),
        ("named", NAMED_KEY[: len(KEY) + 1] + b"\0" + NAMED_KEY[len(KEY) + 2 :]),
        ("named", composite_key(KEY, KEY[:-1], ambiguous=True)),
        ("named", composite_key(KEY, b"\x80", ambiguous=True)),
        ("named map", NAMED_KEY[:-1]),
        ("named map", NAMED_KEY[:-1] + b"\7"),
        ("_timer_state/event_user-timers", bytes(8) + KEY),
        ("_timer_state/event_user-timers", bytes(8) + KEY + b"\0\0"),
        ("_timer_state/event_window-timers", bytes(8) + KEY + bytes(15)),
        ("_timer_state/processing_named", bytes(8) + KEY + KEY[:-1]),
        ("_timer_state/processing_named", bytes(8) + KEY + KEY + b"\0"),
    ],
)
def test_key_followed_by_no_valid_namespace_is_refused(name: str, key: bytes) -> None:
    error = assert_refused(header_of(TEXT), list(KINDS).index(name), key, "no valid namespace follows a key")
    assert error.exit_code == 4


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("key", [b"", b"\x80", b"\5ab", b"\2\xff\xff\xff\x7f"])
def test_damaged_key_is_refused(name: str, key: bytes) -> None:
    time_bytes = bytes(8) if KINDS[name].state_type == "TIMERS" else b""
    error = assert_refused(
        header_of(TEXT), list(KINDS).index(name), time_bytes + key, "a key cannot be read as a String"
    )
    assert error.found


def test_timer_shorter_than_its_time_is_refused() -> None:
    state_id = list(KINDS).index("_timer_state/event_user-timers")
    assert_refused(header_of(TEXT), state_id, bytes(7), "a key cannot be read")


def test_a_long_key_is_shown_in_part() -> None:
    error = assert_refused(header_of(TEXT), 0, KEY, "no valid namespace")
    assert f"{KEY[:64].hex()}… in" in error.what


def codes_by_function(header: KeyedHeader, *records: Record) -> list[int]:
    keys = CompositeKeys(header, None, FunctionHash("own:hash", len))
    return [int(code) for code in keys.hash(records_in_buffer(records, range(len(records))))]


def test_hash_function_is_refused_if_the_namespace_size_is_unknown() -> None:
    for name in ("map", "windowed map", "named", "named map", "_timer_state/processing_named"):
        with pytest.raises(UnsupportedError, match="the end of the keys is unknown") as caught:
            codes_by_function(header_of(TEXT, name), Record(0, bytes(50), b""))
        assert caught.value.state == name
        assert "divides" in str(caught.value.advice)


def test_record_too_short_for_its_namespace_is_refused() -> None:
    assert codes_by_function(header_of(TEXT, "windowed"), Record(0, bytes(16), b""), Record(0, bytes(19), b"")) == [
        0,
        3,
    ]
    with pytest.raises(IntegrityError, match="a record without a key"):
        codes_by_function(header_of(TEXT, "windowed"), Record(0, bytes(15), b""))
    with pytest.raises(IntegrityError, match="a record without a key"):
        codes_by_function(header_of(TEXT, "_timer_state/event_user-timers"), Record(0, bytes(8), b""))


def test_hash_function_that_returns_text_is_a_request_error() -> None:
    keys = CompositeKeys(header_of(LONG_KEY, "value"), None, FunctionHash("own:hash", lambda _: "x"))
    with pytest.raises(RequestError, match="own:hash fails on the key"):
        keys.hash(records_in_buffer([Record(0, bytes(9), b"")], [0]))


def test_a_function_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys_of_mine.py").write_text("def last(key):\n    return key[-1]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    keys = composite_keys(header_of(LONG_KEY, "value"), "keys_of_mine:last")
    record = Record(0, LONG_KEY.write(77) + b"\0", b"")
    assert keys.hash(records_in_buffer([record], [0])).tolist() == [77]


def test_namespace_of_unknown_size_is_ignored_if_the_key_type_is_known() -> None:
    """The key type tells where a key ends; any bytes may follow."""
    header = read_keyed_header(keyed_header(keyed("other", simple("NullValue")), key=LONG), "a file")
    records = [Record(0, LONG_KEY.write(77) + behind, b"") for behind in (b"", b"\1\2\3")]
    assert composite_keys(header, KNOWN_HASH).hash(records_in_buffer(records, [0, 0])).tolist() == [77, 77]
    with pytest.raises(UnsupportedError, match="the end of the keys is unknown"):
        codes_by_function(header, records[0])


@pytest.mark.parametrize(
    "state_bytes",
    [
        state("total", 0, {"KEYED_STATE_TYPE": "VALUE"}, {"VALUE_SERIALIZER": STRING}),
        state("total", 0, {}, {}),
        state("total", 3, {}, {}),
        timers("total", LONG, LONG).replace(nested(LONG, LONG), nested(LONG)),
    ],
)
def test_state_without_its_serializers_is_refused(state_bytes: bytes) -> None:
    header = read_keyed_header(keyed_header(state_bytes, key=LONG), "a file")
    with pytest.raises(SnapshotError, match="serializer") as caught:
        composite_keys(header, KNOWN_HASH)
    assert caught.value.state == "total"


def test_queues_of_other_elements_than_timers_are_refused() -> None:
    header = read_keyed_header(keyed_header(state("queue", 3, {}, {"VALUE_SERIALIZER": INT}), key=LONG), "a file")
    with pytest.raises(UnsupportedError, match="is no queue of timers") as caught:
        composite_keys(header, KNOWN_HASH)
    assert caught.value.state == "queue"


def test_time_precedes_the_key_of_a_timer() -> None:
    assert key_offsets(header_of(LONG_KEY)).tolist() == [
        8 if kind.state_type == "TIMERS" else 0 for kind in KINDS.values()
    ]
    assert timer(-1, b"", b"") == struct.pack(">q", (1 << 63) - 1)
