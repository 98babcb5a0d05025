"""The registry of serializer snapshots, against the classes of Flink and the bytes that they write."""

from __future__ import annotations

import base64
import zipfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from oracle.distribution import LINES, flink_home, serializer_jars
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.keys.java_hash import walk_values
from rescale.flink.release_line import ReleaseLine
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.reading import read_snapshot, type_name
from rescale.flink.serializers.registry import FLINK_ROWS
from rescale.flink.serializers.value_format import format_value
from support.java_programs import printed_by
from support.slow import slow

JAVA_SOURCE = Path(__file__).with_name("SerializerSnapshots.java")

CLASSES_OUTSIDE_THE_DISTRIBUTION = {row.snapshot for row in FLINK_ROWS.values() if row.jar is not None}
"""Snapshot classes that no jar of the distribution has."""

CLASSES_NOT_COMPARED = {
    # Its serializer is in flink-streaming-scala, which is not in the distribution.
    "org.apache.flink.api.scala.typeutils.Tuple2CaseClassSerializerSnapshot",
    # Its serializer is in flink-python, whose jar also contains Apache Beam for Python.
    "org.apache.flink.streaming.api.utils.ByteArrayWrapperSerializer$ByteArrayWrapperSerializerSnapshot",
}
"""Snapshot classes whose bytes are not compared."""

every_line = pytest.mark.parametrize("version", [slow(LINES["1.20"]), LINES["2"]])


@cache
def snapshot_classes(version: str) -> frozenset[str]:
    names = set()
    for jar in flink_home(version):
        with zipfile.ZipFile(jar) as archive:
            names |= {
                name.removesuffix(".class").replace("/", ".")
                for name in archive.namelist()
                if name.endswith("Snapshot.class") or name.endswith("SnapshotV2.class")
            }
    return frozenset(names)


def snapshots_written_by(jars: Iterable[Path]) -> tuple[tuple[str, bytes], ...]:
    """Return snapshot classes and bytes, as the Flink in these jars writes them."""
    printed = printed_by(JAVA_SOURCE, *FLINK_ROWS, jars=jars)
    return tuple((name, base64.b64decode(data)) for name, data in map(str.split, printed.splitlines()))


@cache
def snapshots_of_flink(version: str) -> tuple[tuple[str, bytes], ...]:
    return snapshots_written_by(flink_home(version))


def check_read(class_name: str, data: bytes) -> None:
    """Check that a snapshot is read to its last byte."""
    reader = ByteReader(data + b"\xff" * 8, class_name)
    snapshot = read_snapshot(reader)
    assert (snapshot.class_name, reader.position) == (class_name, len(data))
    assert data.endswith(snapshot.body)


def test_every_row_names_a_class_of_flink() -> None:
    known_classes = frozenset.union(*map(snapshot_classes, LINES.values()))
    assert {name for name in FLINK_ROWS if name not in known_classes} == CLASSES_OUTSIDE_THE_DISTRIBUTION


@every_line
def test_snapshots_of_flink_are_read_to_their_last_byte(version: str) -> None:
    for class_name, data in snapshots_of_flink(version):
        check_read(class_name, data)


@every_line
def test_every_row_of_the_distribution_is_compared_except_known_ones(version: str) -> None:
    line = ReleaseLine.parse(version)
    known_classes = {class_name for class_name, row in FLINK_ROWS.items() if row.since <= line <= row.until}
    compared_classes = {class_name for class_name, _ in snapshots_of_flink(version)}
    assert known_classes - compared_classes == known_classes & (CLASSES_NOT_COMPARED | CLASSES_OUTSIDE_THE_DISTRIBUTION)
    assert compared_classes <= known_classes


@pytest.mark.slow
def test_rows_of_jars_are_compared_too() -> None:
    release = LINES["2"]
    snapshots = dict(snapshots_written_by([*flink_home(release), *serializer_jars(release)]))
    assert CLASSES_OUTSIDE_THE_DISTRIBUTION - set(snapshots) == CLASSES_NOT_COMPARED & CLASSES_OUTSIDE_THE_DISTRIBUTION
    for class_name in CLASSES_OUTSIDE_THE_DISTRIBUTION & set(snapshots):
        check_read(class_name, snapshots[class_name])


@every_line
def test_types_of_flink_have_readable_names(version: str) -> None:
    type_names = {type_name(read_snapshot(ByteReader(data))) for _, data in snapshots_of_flink(version)}
    assert type_names >= {
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


@every_line
def test_values_of_flink_are_measured_to_their_last_byte(version: str) -> None:
    printed = printed_by(JAVA_SOURCE.with_name("SerializedValues.java"), jars=flink_home(version))
    lines = [tuple(map(base64.b64decode, line.split())) for line in printed.splitlines()]
    assert len(lines) > 20
    for snapshot, value in lines:
        program = compile_program(read_snapshot(ByteReader(snapshot)))
        format_value(program.tree, reader := ByteReader(value))
        assert reader.remaining == 0, program.name
        ends, error = walk_values(program, np.frombuffer(value * 2, np.uint8), 0, 2)
        assert (ends.tolist(), error) == ([len(value), 2 * len(value)], None), program.name
