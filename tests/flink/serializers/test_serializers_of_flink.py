"""The registry of serializer snapshots, against the classes of Flink and the bytes that they write."""

from __future__ import annotations

import base64
import os
import subprocess
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from oracle.distribution import LINES, flink_home
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.keys.java_hash import walk_row
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.reading import read_snapshot, type_name
from rescale.flink.serializers.registry import KNOWN_TYPES
from rescale.flink.serializers.value_words import in_words
from support.slow import slow

SOURCE = Path(__file__).with_name("SerializerSnapshots.java")

ELSEWHERE = {
    "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot": "flink-avro",
    "org.apache.flink.streaming.api.utils.ByteArrayWrapperSerializer$ByteArrayWrapperSerializerSnapshot": (
        "flink-python"
    ),
    **{
        name: "flink-table-api-scala"
        for name in KNOWN_TYPES
        if name.startswith("org.apache.flink.table.api.typeutils.")
    },
}
"""Snapshot classes that no jar of the distribution holds, by the artifact that does."""

NOT_MADE = {
    *ELSEWHERE,
    # Generated or made by macros of Scala, so that no class can be named to be made.
    "org.apache.flink.api.scala.typeutils.ScalaCaseClassSerializerSnapshot",
    "org.apache.flink.api.scala.typeutils.Tuple2CaseClassSerializerSnapshot",
    "org.apache.flink.api.scala.typeutils.ScalaTrySerializerSnapshot",
    "org.apache.flink.api.scala.typeutils.TraversableSerializerSnapshot",
    # Its equality and its hash function are generated code.
    "org.apache.flink.table.runtime.sequencedmultisetstate.linked.RowDataKeySerializerSnapshot",
}
"""Those whose bytes are not compared."""

lines = pytest.mark.parametrize("version", LINES.values())


@cache
def classes(version: str) -> frozenset[str]:
    found = set()
    for jar in flink_home(version):
        with zipfile.ZipFile(jar) as archive:
            found |= {
                name.removesuffix(".class").replace("/", ".")
                for name in archive.namelist()
                if name.endswith("Snapshot.class") or name.endswith("SnapshotV2.class")
            }
    return frozenset(found)


@cache
def written(version: str) -> tuple[tuple[str, bytes], ...]:
    """Snapshot class and bytes, as that Flink writes them."""
    path = os.pathsep.join(map(str, flink_home(version)))
    command = ["java", "-cp", path, str(SOURCE), *KNOWN_TYPES]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    return tuple((name, base64.b64decode(data)) for name, data in map(str.split, printed.splitlines()))


def test_every_row_names_a_class_of_flink() -> None:
    known = frozenset.union(*map(classes, LINES.values()))
    assert {name for name in KNOWN_TYPES if name not in known} == set(ELSEWHERE)


@lines
def test_what_flink_writes_is_read_to_its_last_byte(version: str) -> None:
    for class_name, data in written(version):
        reader = ByteReader(data + b"\xff" * 8, class_name)
        snapshot = read_snapshot(reader)
        assert (snapshot.class_name, reader.position) == (class_name, len(data))
        assert data.endswith(snapshot.body)


def test_nearly_every_row_is_compared() -> None:
    compared = {class_name for version in LINES.values() for class_name, _ in written(version)}
    assert set(KNOWN_TYPES) - compared == NOT_MADE


@lines
def test_types_are_called_as_people_call_them(version: str) -> None:
    called = {type_name(read_snapshot(ByteReader(data))) for _, data in written(version)}
    assert called >= {
        "Int",
        "Byte[]",
        "List<Int>",
        "Map<String, Int>",
        "Tuple2<String, Tuple1<Int>>",
        "Row<String, Long>",
        "Either<Int, String>",
        "Enum java.util.concurrent.TimeUnit",
        "Kryo java.util.BitSet",
        "POJO SerializerSnapshots$Event",
        "TTL<String>",
        "Timer<String, Int>",
        "DecimalData(20, 3)",
        "TimestampData(9)",
    }


@pytest.mark.parametrize("version", [slow(LINES["1.20"]), LINES["2"]])
def test_values_are_measured_as_flink_writes_them(version: str) -> None:
    path = os.pathsep.join(map(str, flink_home(version)))
    command = ["java", "-cp", path, str(SOURCE.with_name("SerializedValues.java"))]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    lines = [tuple(map(base64.b64decode, line.split())) for line in printed.splitlines()]
    assert len(lines) > 20
    for snapshot, value in lines:
        program = compile_program(read_snapshot(ByteReader(snapshot)))
        in_words(program.tree, reader := ByteReader(value))
        assert reader.remaining == 0, program.name
        ends, wrong = walk_row(program, np.frombuffer(value * 2, np.uint8), 0, 2)
        assert (ends.tolist(), wrong) == ([len(value), 2 * len(value)], None), program.name
