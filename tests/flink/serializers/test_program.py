"""Serializer snapshots as programs: what can be measured, what can be hashed, and what `getLength` says."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from rescale.flink.keys.java_hash import walk_keys
from rescale.flink.keys.key_hash import named_hash
from rescale.flink.serializers.program import compile_program
from rescale.text.errors import SnapshotError, UnsupportedError
from support.java_composites import Either, List, Nullable, Row, Tuple
from support.java_values import HASHABLE_LEAVES, ByteArray
from support.serializer_vectors import JAVA_OBJECT, TYPES
from support.snapshot_bytes import (
    BASE,
    CUSTOM,
    INT,
    LONG,
    POJO,
    STRING,
    VOID_NAMESPACE,
    composite,
    i32,
    kryo,
    list_of,
    parsed,
    pojo,
    snapshot,
    utf,
)

LONG_KEY, TEXT = HASHABLE_LEAVES["Long"], HASHABLE_LEAVES["String"]
WINDOW = snapshot("org.apache.flink.streaming.api.windowing.windows.TimeWindow$Serializer$TimeWindowSerializerSnapshot")
ENUM = snapshot(BASE + "EnumSerializer$EnumSerializerSnapshot", 3, utf("com.example.Colour") + i32(1) + utf("RED"))
KRYO = kryo("com.example.Money")
AVRO = snapshot(
    "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot", 2, utf("com.example.Money") + utf('"string"')
)
MAP = composite(BASE + "MapSerializerSnapshot", STRING, LONG)


DECIMAL = snapshot(TYPES + "DecimalDataSerializer$DecimalSerializerSnapshot", 3, i32(18, 2))


def external(internal: bytes) -> bytes:
    name = TYPES + "ExternalSerializer$ExternalSerializerSnapshot"
    return composite(name, internal, outer=JAVA_OBJECT + b"\0")


CASE_CLASS = composite(
    "org.apache.flink.api.scala.typeutils.ScalaCaseClassSerializerSnapshot",
    LONG,
    INT,
    outer=utf("com.example.Point"),
    outer_version=2,
)


@pytest.mark.parametrize(
    ("data", "length", "hashable"),
    [
        (LONG, 8, True),
        (STRING, None, True),
        (VOID_NAMESPACE, 0, False),
        (WINDOW, 16, False),
        (ENUM, 4, False),
        (MAP, None, False),
        (CASE_CLASS, 12, False),
        (pojo({"number": INT}), None, False),
        (ByteArray.snapshot, None, False),
        (list_of(ByteArray.snapshot), None, False),
        (Tuple([LONG_KEY, HASHABLE_LEAVES["Int"]]).snapshot, 12, True),
        (Tuple([LONG_KEY, TEXT]).snapshot, None, True),
        (Tuple([LONG_KEY, ByteArray()]).snapshot, None, False),
        (Row([LONG_KEY]).snapshot, None, True),
        (Row([ByteArray(), List(List(ByteArray()))]).snapshot, None, True),
        (Row([Tuple([ByteArray()])]).snapshot, None, False),
        (Row([Either(LONG_KEY, ByteArray())]).snapshot, None, False),
        (Either(LONG_KEY, LONG_KEY).snapshot, None, True),
        (Nullable(LONG_KEY, 8).snapshot, 9, True),
        (Nullable(LONG_KEY, 0).snapshot, None, True),
        (DECIMAL, None, False),
        (external(INT), 4, False),
        (external(STRING), None, False),
        (external(DECIMAL), None, False),
    ],
)
def test_program_has_fixed_length_and_hashability_of_its_type(data: bytes, length: int | None, hashable: bool) -> None:
    program = compile_program(parsed(data))
    assert (program.fixed_length, program.hashable) == (length, hashable)


def test_negative_number_of_bytes_for_null_is_refused() -> None:
    with pytest.raises(SnapshotError, match="NullableSerializer") as caught:
        compile_program(parsed(Nullable(LONG_KEY, -3).snapshot))
    assert caught.value.found == "-3"


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (KRYO, "KryoSerializerSnapshot"),
        (AVRO, "AvroSerializerSnapshot"),
        (Row([LONG_KEY]).snapshot.replace(LONG, KRYO), "KryoSerializerSnapshot"),
        (pojo({"price": CUSTOM}), "com.example.Money"),
        (pojo({"colour": snapshot(BASE + "EnumSerializer$EnumSerializerSnapshot", 99)}), "EnumSerializer"),
        (pojo({"price": None, "number": INT}), "POJO com.example.Order"),
    ],
)
def test_types_that_cannot_be_measured_are_refused_with_advice(data: bytes, name: str) -> None:
    with pytest.raises(UnsupportedError, match=name) as caught:
        compile_program(parsed(data))
    assert caught.value.advice == "a max parallelism that divides the old one needs no hash of keys"


@pytest.mark.parametrize(
    "class_name", [BASE + "ListSerializerSnapshot", BASE + "MapSerializerSnapshot", BASE + "SetSerializerSnapshot"]
)
def test_wrong_number_of_nested_serializers_is_refused(class_name: str) -> None:
    """Flink uses the serializers that it expects, and fails without a message if some are missing."""
    for nested_snapshots in ((), (INT, INT, INT)):
        with pytest.raises(SnapshotError, match="wrong number of nested serializers") as caught:
            compile_program(parsed(composite(class_name, *nested_snapshots)))
        assert caught.value.found == str(len(nested_snapshots))


def test_case_class_of_flink_2_is_walked_and_hashed() -> None:
    """`Tuple2CaseClassSerializer` of Flink 2.3 has written the keys ("ab", 7) and ("x", 1 << 40)."""
    pair = composite(
        "org.apache.flink.table.api.typeutils.Tuple2CaseClassSerializerSnapshot",
        STRING,
        LONG,
        outer=utf("scala.Tuple2"),
        outer_version=2,
    )
    keys = bytes.fromhex("0361620000000000000007 02780000010000000000")
    program = named_hash(parsed(pair), "case-class").program
    walked = walk_keys(program, np.frombuffer(keys, np.uint8), np.array([0, 11]), np.array([11, 21]))
    assert walked.hash_codes is not None
    assert (walked.ends.tolist(), walked.hash_codes.tolist()) == ([11, 21], [1874675263, -1937392685])


def test_fields_of_a_pojo_are_not_taken_for_its_subclasses() -> None:
    assert parsed(pojo({"number": INT}, registered={"com.example.Sub": pojo({})})).class_name == POJO
    registered = compile_program(parsed(pojo({"number": INT}, registered={"com.example.Sub": STRING})))
    other = compile_program(parsed(pojo({"number": INT})))
    assert registered.tree == other.tree


def test_programs_need_no_numba() -> None:
    """Reading headers does not import numba, because that takes a second."""
    code = "import sys, rescale.flink.keys.java_hash, rescale.flink.keys.key_hash; sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
