"""Ends and hashes of keys, compared with figures from Flink and with the slow twin; and damaged keys."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescale.flink.encoding.binary import ByteReader
from rescale.flink.key_groups import key_group_of_hash, murmur
from rescale.flink.keys import machine
from rescale.flink.keys.java_hash import ERROR_TEXTS, WalkedKeys, key_groups_of_hashes, walk_keys
from rescale.flink.serializers.program import Program, compile_program
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.type_tree import BlobHash, FixedHash
from rescale.flink.serializers.value_format import format_value
from rescale.text.errors import UnsupportedError
from support.examples import examples
from support.java_composites import Either, List, Nullable, Row, Tuple
from support.java_values import HASHABLE_LEAVES, BinaryRow, ByteArray, JavaType
from support.snapshot_bytes import INT, LONG, STRING, VOID_NAMESPACE, co_grouped, i32, kryo, parsed, pojo, simple, utf

LEAVES = HASHABLE_LEAVES
LONG_KEY, TEXT = LEAVES["Long"], LEAVES["String"]


def program(java_type: JavaType) -> Program:
    return compile_program(parsed(java_type.snapshot))


def walk(compiled: Program, keys: list[bytes], behind: bytes = b"") -> WalkedKeys:
    """Walk the keys, which lie end to end; the bytes `behind` follow each key, before its limit."""
    limits = np.cumsum([len(key) + len(behind) for key in keys], dtype=np.int64)
    starts = limits - np.array([len(key) + len(behind) for key in keys], dtype=np.int64)
    return walk_keys(compiled, np.frombuffer(b"".join(key + behind for key in keys), np.uint8), starts, limits)


def hash_codes_of(walked: WalkedKeys) -> list[int]:
    assert walked.first_error() is None
    assert walked.hash_codes is not None
    return walked.hash_codes.tolist()


@pytest.mark.parametrize(
    ("java_type", "key", "code", "murmur_code", "group_of_128", "group_of_1000"),
    [
        (LONG_KEY, "0000000100000000", 1, 68075478, 86, 478),
        (LONG_KEY, "ffffffffffffffff", 0, 593689054, 94, 54),
        (TEXT, "0261", 97, 1455541201, 81, 201),
        (TEXT, "0668656c6c6f", 99162322, 1715862179, 35, 179),
        (TEXT, "0668e9016c6c6f", 103094734, 162369042, 18, 42),
        (TEXT, "03e5cb01acce01", 835047, 1762503263, 95, 263),
        (TEXT, "03bdb00380bc03", 1772899, 1934073014, 54, 14),
        (LEAVES["Boolean"], "01", 1231, 1090530765, 77, 765),
        (LEAVES["Double"], "3ff8000000000000", 1073217536, 1684538177, 65, 177),
        (LEAVES["BigInteger"], "00000006ff00", -256, 910361053, 93, 53),
        (LEAVES["BigInteger"], "00000011018ee90ff6c373e0ee4e3f0ad2", 1915528825, 739597324, 12, 324),
        (LEAVES["BigDecimal"], "0000000604d200000002", 38256, 833745138, 114, 138),
        (LEAVES["BigDecimal"], "0000000300000001", 311, 716133863, 103, 863),
        (LEAVES["LocalDate"], "000007e8021d", 4145309, 125776286, 30, 286),
        (LEAVES["LocalTime"], "0d0e0f075bcd15", -1833650110, 151814063, 47, 63),
        (LEAVES["Instant"], "000000006553f100075bcd15", -593638353, 1439893507, 3, 507),
        (Tuple([TEXT, LEAVES["Int"]]), "0668656c6c6f00000007", -1220935307, 963578701, 77, 701),
        (Row([TEXT]), "000668656c6c6f", 99162384, 1853469224, 40, 224),
        (Row([TEXT, TEXT]), "200668656c6c6f", 99163314, 242754097, 49, 97),
        (Row([ByteArray()]), "000000000580044b012e", -89390159, 173277286, 102, 286),
        (
            BinaryRow(),
            "0000001800000000000000002a0000000000000068656c6c6f000085",
            -1109062209,
            506273351,
            71,
            351,
        ),
        (
            BinaryRow(),
            "00000018000300000000000000000000000000000000000000000000",
            -1130415291,
            120817214,
            62,
            214,
        ),
        (BinaryRow(), "000000080000000000000000", -1670924195, 1651663115, 11, 115),
    ],
)
def test_hashes_and_key_groups_equal_those_of_flink(
    java_type: JavaType, key: str, code: int, murmur_code: int, group_of_128: int, group_of_1000: int
) -> None:
    walked = walk(program(java_type), [bytes.fromhex(key)], behind=b"\x2c\0")
    assert hash_codes_of(walked) == [code]
    assert walked.ends.tolist() == [len(key) // 2]
    assert walked.hash_codes is not None
    groups = [key_groups_of_hashes(walked.hash_codes, maximum).tolist() for maximum in (128, 1000, 32768)]
    assert groups == [[group_of_128], [group_of_1000], [murmur_code % 32768]]
    assert murmur(code) == murmur_code


@given(st.lists(st.integers(-(1 << 31), (1 << 31) - 1)), st.integers(1, 32768))
def test_key_groups_of_many_hashes_equal_those_of_single_hashes(hashes: list[int], max_parallelism: int) -> None:
    groups = key_groups_of_hashes(np.array(hashes, np.int32), max_parallelism)
    assert groups.tolist() == [key_group_of_hash(code, max_parallelism) for code in hashes]


def nested_types(inner: st.SearchStrategy[JavaType]) -> st.SearchStrategy[JavaType]:
    fields = st.lists(inner, min_size=1, max_size=4)
    in_rows = inner | st.sampled_from([ByteArray(), List(ByteArray())])
    return st.one_of(
        fields.map(Tuple),
        st.lists(in_rows, max_size=9).map(Row),
        st.builds(Row, st.lists(in_rows, min_size=1, max_size=9), st.just(False), st.sampled_from([2, 4])),
        st.builds(Row, st.lists(in_rows, max_size=3), st.just(True), st.just(3)),
        inner.map(List),
        st.builds(Either, inner, inner),
        st.builds(Nullable, inner, st.integers(0, 9)),
    )


TYPES = st.recursive(st.sampled_from(list(LEAVES.values())), nested_types, max_leaves=6)


def check_against_the_slow_twin(java_type: JavaType, values: list[object]) -> None:
    keys = [java_type.write(value) for value in values]
    slow_codes = []
    for key in keys:
        stream = io.BytesIO(key + b"\xff")
        slow_codes.append(java_type.code_or_null(java_type.read(stream)))
        assert stream.tell() == len(key)
    walked = walk(program(java_type), keys, behind=b"\xff\0")
    assert hash_codes_of(walked) == slow_codes
    assert [end + 2 for end in walked.ends.tolist()] == np.cumsum([len(key) + 2 for key in keys]).tolist()


@pytest.mark.parametrize("name", LEAVES)
@given(data=st.data())
@settings(max_examples=examples(40))
def test_simple_keys_are_walked_as_by_the_slow_twin(name: str, data: st.DataObject) -> None:
    leaf = LEAVES[name]
    values = leaf.values | st.none() if leaf.has_null else leaf.values
    check_against_the_slow_twin(leaf, data.draw(st.lists(values)))


@given(data=st.data())
@settings(max_examples=examples(150))
def test_nested_keys_are_walked_as_by_the_slow_twin(data: st.DataObject) -> None:
    java_type = data.draw(TYPES)
    check_against_the_slow_twin(java_type, data.draw(st.lists(java_type.values, max_size=4)))


@given(data=st.data())
@settings(max_examples=examples(150))
def test_damaged_key_is_not_read_beyond_its_limit(data: st.DataObject) -> None:
    """A truncated or changed key may be valid or not, but never affects the key after it."""
    java_type = data.draw(TYPES)
    key = bytearray(java_type.write(data.draw(java_type.values)))
    whole_key = bytes(key)
    compiled = program(java_type)
    key_size = data.draw(st.integers(0, len(key)))
    if key_size:
        key[data.draw(st.integers(0, key_size - 1))] = data.draw(st.integers(0, 255))
    starts = np.array([0, key_size], np.int64)
    key_data = np.frombuffer(bytes(key[:key_size]) + whole_key, np.uint8)
    walked = walk_keys(compiled, key_data, starts, np.array([key_size, key_size + len(whole_key)], np.int64))
    assert 0 <= walked.ends[0] <= key_size
    assert (walked.error_codes[1], walked.ends[1]) == (0, len(key_data))
    shorter = walk(compiled, [whole_key[:size] for size in range(len(whole_key))])
    assert shorter.error_codes.all()


@pytest.mark.parametrize(
    ("snapshot", "key", "reason", "offset"),
    [
        (LONG, "00000000000001", "the data ends inside the key", 0),
        (STRING, "", "the data ends inside the key", 0),
        (STRING, "0561", "an impossible length", 1),
        (STRING, "ffffffffff01", "an impossible length", 5),
        (STRING, "03ffff04ffff7f", "an impossible character", 1),
        (STRING, "02ff", "the data ends inside the key", 1),
        (simple("Boolean"), "02", "an impossible flag", 0),
        (simple("BigInt"), "00000004", "an impossible length", 0),
        (simple("BigInt"), "ffffffff", "an impossible length", 0),
        (simple("BigDec"), "0000000100", "the data ends inside the key", 4),
        (List(LONG_KEY).snapshot, "ffffffff", "an impossible length", 0),
        (List(LONG_KEY).snapshot, "7fffffff00000000", "an impossible length", 0),
        (Row([LONG_KEY]).snapshot, "21", "a mask of null fields with a bit after the last field", 0),
        (Either(LONG_KEY, TEXT).snapshot, "0200", "an impossible flag", 0),
        (co_grouped(LONG, STRING), "0000", "an impossible flag", 0),
        (co_grouped(LONG, STRING), "0300", "an impossible flag", 0),
        (co_grouped(LONG, STRING), "02", "the data ends inside the key", 1),
        (Nullable(LONG_KEY, 8).snapshot, "0100", "the data ends inside the key", 0),
        (BinaryRow.snapshot, "0000000400000000", "an impossible length", 0),
        (ByteArray.snapshot, "ffffffff", "an impossible length", 0),
        (pojo({"a": INT}), "04", "an object of a subclass of its POJO, which cannot be delimited", 1),
        (pojo({"a": INT}), "08", "an object of a subclass of its POJO, which cannot be delimited", 1),
        (pojo({"a": INT}), "03", "an impossible flag", 1),
    ],
)
def test_damaged_key_is_reported_with_reason_and_offset(snapshot: bytes, key: str, reason: str, offset: int) -> None:
    walked = walk(compile_program(parsed(snapshot)), [bytes.fromhex(key)])
    assert walked.first_error() == (0, reason)
    assert walked.ends.tolist() == [offset]


def test_first_of_many_wrong_keys_is_reported() -> None:
    keys = [LONG_KEY.write(number) for number in range(5)]
    walked = walk(program(LONG_KEY), [*keys, b"\0", b"", *keys])
    assert walked.first_error() == (5, "the data ends inside the key")
    assert walked.error_codes.tolist() == [0] * 5 + [2, 2] + [0] * 5
    assert walked.hash_codes is not None
    assert walked.hash_codes.tolist() == [0, 1, 2, 3, 4, 0, 0, 0, 1, 2, 3, 4]


@pytest.mark.parametrize(("start", "limit"), [(-1, 8), (0, 17), (9, 8), (1 << 62, 1 << 62), (17, 17)])
def test_key_outside_of_the_data_is_reported(start: int, limit: int) -> None:
    walked = walk_keys(program(LONG_KEY), np.zeros(16, np.uint8), np.array([start]), np.array([limit]))
    assert walked.first_error() == (0, "the key does not lie in the data")


def test_walk_of_no_keys_gives_no_hashes() -> None:
    walked = walk(program(LONG_KEY), [])
    assert hash_codes_of(walked) == []
    assert len(walked.ends) == 0


def test_unequal_numbers_of_starts_and_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="2 starts and 1 limits"):
        walk_keys(program(LONG_KEY), np.zeros(16, np.uint8), np.array([0, 8]), np.array([8]))


@pytest.mark.parametrize(
    ("snapshot", "key"),
    [
        (VOID_NAMESPACE, "00"),
        (pojo({"number": INT, "town": STRING}), "02" + "01" + "000361" + "62"),
        (pojo({"number": INT, "town": STRING}), "01"),
        (simple("StringValue"), "026162"),
        (Tuple([ByteArray(), LONG_KEY]).snapshot, "0000000180" + "00" * 8),
    ],
)
def test_keys_without_a_known_hash_are_measured(snapshot: bytes, key: str) -> None:
    compiled = compile_program(parsed(snapshot))
    assert not compiled.hashable
    walked = walk(compiled, [bytes.fromhex(key)] * 2, behind=b"\x01\x01")
    assert walked.hash_codes is None
    size = len(key) // 2
    assert (walked.first_error(), walked.ends.tolist()) == (None, [size, 2 * size + 2])


def test_machine_has_the_numbers_of_the_hash_rules() -> None:
    for rules in (FixedHash, BlobHash):
        assert [getattr(machine, rule.name) for rule in rules] == list(rules)
    assert len(ERROR_TEXTS) == machine.SUBCLASS + 1


UUIDS_BY_KRYO = {
    2: {
        "00000000-0000-0001-0000-000000000002": "54010204",
        "ffffffff-ffff-ffff-ffff-fffffffffffe": "54010103",
        "01020304-0506-0708-8182-838485868788": "5401909cb0d080c1818202efe1cba7ef9ebefdfc",
        "80000000-0000-0000-7fff-ffffffffffff": "5401fffffffffffffffffffeffffffffffffffff",
        "123e4567-e89b-42d3-a456-426614174000": "5401a68bda89fdd9a2be24ffffc5bebde6dea9b7",
    },
    5: {
        "00000000-0000-0001-0000-000000000002": "540101000000000000000200000000000000",
        "ffffffff-ffff-ffff-ffff-fffffffffffe": "5401fffffffffffffffffeffffffffffffff",
        "01020304-0506-0708-8182-838485868788": "540108070605040302018887868584838281",
        "80000000-0000-0000-7fff-ffffffffffff": "54010000000000000080ffffffffffffff7f",
        "123e4567-e89b-42d3-a456-426614174000": "5401d3429be867453e1200401714664256a4",
    },
}
"""Bytes that Flink 1.20 (Kryo 2) and Flink 2.3 (Kryo 5) write."""

HASHES_OF_UUIDS = [3, 1, 0, 0, 1256457682]
"""`UUID.hashCode` in Java."""


@pytest.mark.parametrize("version", UUIDS_BY_KRYO)
def test_uuids_of_both_kryos_are_measured_hashed_and_formatted(version: int) -> None:
    compiled = compile_program(parsed(kryo("java.util.UUID")).with_kryo(version))
    values = {text: bytes.fromhex(value) for text, value in UUIDS_BY_KRYO[version].items()}
    walked = walk(compiled, list(values.values()), b"\xff\0")
    assert hash_codes_of(walked) == HASHES_OF_UUIDS
    assert (compiled.fixed_length, compiled.hashable) == (None, True)
    assert np.diff(walked.ends, prepend=-2).tolist() == [len(value) + 2 for value in values.values()]
    for text, value in values.items():
        assert format_value(compiled.tree, ByteReader(value)) == text
        for end in range(len(value)):
            assert walk(compiled, [value[:end]]).first_error() == (0, "the data ends inside the key")
        assert walk(compiled, [b"\x53" + value[1:]]).first_error() == (0, "an impossible flag")
    assert format_value(compiled.tree, ByteReader(b"\0")) == "null"
    assert walk(compiled, [b"\0"]).ends.tolist() == [1]


@pytest.mark.parametrize(
    "serializer",
    [
        parsed(kryo("java.util.UUID")),
        parsed(kryo("com.example.Money")).with_kryo(2),
        parsed(kryo("java.util.UUID", {"java.util.UUID": utf("java.util.UUID") + i32(1) + utf("Own")})).with_kryo(2),
    ],
    ids=["unknown release", "another class", "serializer of the job"],
)
def test_other_values_of_kryo_have_no_known_end(serializer: SerializerSnapshot) -> None:
    with pytest.raises(UnsupportedError, match="is unknown"):
        compile_program(serializer)
