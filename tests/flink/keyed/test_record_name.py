"""Names of records that Flink wrote, and of records whose composite keys cannot be decoded."""

from __future__ import annotations

import pytest

from rescale.flink.encoding.binary import ByteReader
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keyed.record_name import record_name_parts
from rescale.flink.state_meta_info import read_state_meta_info
from support import snapshots
from support.canonical import read_group
from support.snapshot_bytes import (
    BASE,
    INT,
    LONG,
    STATE,
    STRING,
    VOID_NAMESPACE,
    composite,
    keyed_state,
    parsed,
    snapshot,
    state,
    utf,
)

MAP = composite("org.apache.flink.api.common.typeutils.base.MapSerializerSnapshot", LONG, STRING)
TTL_AWARE = snapshot(STATE + "ttl.TtlAwareSerializerSnapshot", 1, b"\1" + MAP)
TIMER = composite("org.apache.flink.streaming.api.operators.TimerSerializerSnapshot", STRING, STRING)
TUPLE = composite(
    "org.apache.flink.api.java.typeutils.runtime.TupleSerializerSnapshot",
    INT,
    STRING,
    outer=utf("org.apache.flink.api.java.tuple.Tuple2"),
    outer_version=2,
)


def header(state_bytes: bytes, key: bytes = STRING) -> KeyedHeader:
    return KeyedHeader(False, parsed(key), (read_state_meta_info(ByteReader(state_bytes)),))


def state_with_namespace(namespace: bytes, value: bytes = LONG, state_type: str = "VALUE") -> bytes:
    serializers = {"VALUE_SERIALIZER": value, "NAMESPACE_SERIALIZER": namespace}
    return state("s", 0, {"KEYED_STATE_TYPE": state_type}, serializers)


@pytest.mark.parametrize(
    ("keyed_header", "key", "name_parts"),
    [
        (header(keyed_state("s")), "036162" + "00", {"key": '"ab"'}),
        (header(keyed_state("s"), LONG), "fffffffffffffffe" + "00", {"key": "-2"}),
        (header(keyed_state("s"), TUPLE), "00000007" + "0261" + "00", {"key": '(7, "a")'}),
        (header(state_with_namespace(STRING)), "036162" + "03" + "0263" + "02", {"key": '"ab"', "namespace": '"c"'}),
        (header(state_with_namespace(STRING), LONG), "0000000000000001" + "0263", {"key": "1", "namespace": '"c"'}),
        (
            header(state_with_namespace(VOID_NAMESPACE, MAP, "MAP")),
            "0261" + "00" + "0000000000000009",
            {"key": '"a"', "user_key": "9"},
        ),
        (
            header(state_with_namespace(VOID_NAMESPACE, TTL_AWARE, "MAP")),
            "0261" + "00" + "0000000000000009",
            {"key": '"a"', "user_key": "9"},
        ),
        (
            header(state_with_namespace(VOID_NAMESPACE, composite(BASE + "MapSerializerSnapshot"), "MAP")),
            "0261" + "00" + "0000000000000009",
            {"key": '"a"', "user_key": "0x0000000000000009"},
        ),
        (
            header(state("s", 0, {"KEYED_STATE_TYPE": "MAP"}, {"NAMESPACE_SERIALIZER": VOID_NAMESPACE})),
            "0261" + "00" + "0000000000000009",
            {"key": '"a"', "user_key": "0x0000000000000009"},
        ),
        (
            header(state("s", 3, {}, {"VALUE_SERIALIZER": TIMER})),
            "8000000000000005" + "0261" + "0262",
            {"key": '"a"', "time": "5", "namespace": '"b"'},
        ),
        (
            header(state("s", 3, {}, {"VALUE_SERIALIZER": TIMER})),
            "7fffffffffffffff" + "0261" + "0262",
            {"key": '"a"', "time": "-1", "namespace": '"b"'},
        ),
    ],
)
def test_record_is_named_by_the_parts_of_its_key(
    keyed_header: KeyedHeader, key: str, name_parts: dict[str, str]
) -> None:
    assert record_name_parts(keyed_header, "s", bytes.fromhex(key)) == name_parts


@pytest.mark.parametrize(
    ("keyed_header", "key"),
    [
        (None, "0261"),
        (header(keyed_state("another")), "026100"),
        (header(keyed_state("s")), "0561"),
        (header(keyed_state("s")), "02610000"),
        (header(state_with_namespace(STRING)), "036162" + "04" + "0263" + "02"),
        (header(state_with_namespace(STRING)), "036162" + "03" + "0263"),
        (header(state("s", 3, {}, {"VALUE_SERIALIZER": LONG})), "0000000000000001"),
    ],
)
def test_record_with_an_unreadable_key_is_named_by_its_bytes(keyed_header: KeyedHeader | None, key: str) -> None:
    assert record_name_parts(keyed_header, "s", bytes.fromhex(key)) == {"key_bytes": f"0x{key}"}


@pytest.mark.parametrize("name", ["1.20-canonical-rocksdb", "2-canonical-hashmap", "2-windows", "1.20-sql", "2-clicks"])
def test_every_record_of_flink_has_a_unique_name(name: str) -> None:
    name_count = 0
    for keyed in snapshots.keyed_streams():
        stream = keyed.stream
        if not keyed.where.startswith(f"{name} ") or stream.framing is not Framing.CANONICAL or stream.parsed is None:
            continue
        operator = next(operator for operator in keyed.snapshot.operators if stream in operator.keyed)
        record_names = [
            (info := stream.parsed.states[record.state]).name
            + str(sorted(record_name_parts(stream.parsed, info.name, record.key).items()))
            for _, group in keyed.groups()
            for _, record in read_group(group, operator.max_parallelism)
        ]
        assert len(set(record_names)) == len(record_names)
        assert not any("key_bytes" in record_name for record_name in record_names)
        name_count += len(record_names)
    assert name_count > 0
