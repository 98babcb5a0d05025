"""Rows of the serializer table against their test vectors: snapshots of all versions, and ends and hashes of values."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import numpy as np
import pytest

from oracle.distribution import LINES, flink_home
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.keys.java_hash import walk_keys
from rescale.flink.release_line import ReleaseLine
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.reading import read_snapshot, type_name
from rescale.flink.serializers.registry import FLINK_ROWS
from rescale.flink.serializers.snapshot import KRYO_SNAPSHOT, UnknownSerializerError
from rescale.flink.serializers.value_format import format_value
from rescale.text.errors import SnapshotError, UnsupportedError
from support.java_programs import printed_by
from support.readme import DOCS
from support.serializer_vectors import INT, JAVA_OBJECT, STREAMING, STRING, TYPES, VECTORS, within
from support.slow import slow
from support.snapshot_bytes import composite, parsed, snapshot

every_row = pytest.mark.parametrize("class_name", FLINK_ROWS)


def test_every_row_has_a_vector() -> None:
    assert set(VECTORS) == set(FLINK_ROWS)


@every_row
def test_snapshot_of_every_version_is_read_to_its_last_byte(class_name: str) -> None:
    vector = VECTORS[class_name]
    for data in vector.snapshots(FLINK_ROWS[class_name]):
        reader = ByteReader(data + b"what follows")
        serializer = read_snapshot(reader)
        assert (reader.position, type_name(serializer)) == (len(data), vector.name)
        assert data.endswith(serializer.body)


@every_row
def test_truncated_snapshot_of_every_row_is_refused(class_name: str) -> None:
    for data in VECTORS[class_name].snapshots(FLINK_ROWS[class_name]):
        for end in range(len(data)):
            with pytest.raises(SnapshotError) as error:
                read_snapshot(ByteReader(data[:end], "a file"))
            assert error.value.path == "a file"
            assert 0 <= error.value.offset <= end


@every_row
def test_a_value_is_measured_and_hashed(class_name: str) -> None:
    vector = VECTORS[class_name]
    *_, newest = vector.snapshots(FLINK_ROWS[class_name])
    if vector.value is None:
        with pytest.raises(UnsupportedError):
            compile_program(parsed(newest))
        return
    program, value = compile_program(parsed(newest)), bytes.fromhex(vector.value)
    format_value(program.tree, reader := ByteReader(value))
    assert reader.remaining == 0
    walked = walk_keys(program, np.frombuffer(value * 2, np.uint8), *np.array([[0, len(value)], [2 * len(value)] * 2]))
    assert walked.ends.tolist() == [len(value), 2 * len(value)]
    if vector.code is not None:
        assert walked.hash_codes is not None
        assert walked.hash_codes.tolist() == [vector.code] * 2


@pytest.mark.parametrize(
    ("value", "text"),
    [("00 0000000000000007 0261", '(0x0000000000000007, "a")'), ("01 0261", '"a"'), ("02 8000000000000000", "0x80")],
    ids=["record with timestamp", "record without timestamp", "watermark"],
)
def test_stream_element_is_measured_by_its_tag(value: str, text: str) -> None:
    """An operator of SQL that keeps the order of a key's records stores records and watermarks."""
    element = parsed(composite(within(STREAMING + "runtime.streamrecord.StreamElementSerializer"), STRING))
    program, data = compile_program(element), bytes.fromhex(value)
    assert format_value(program.tree, ByteReader(data)).startswith(text)
    walked = walk_keys(program, np.frombuffer(data, np.uint8), *np.array([[0], [len(data)]]))
    assert (walked.first_error(), walked.ends.tolist()) == (None, [len(data)])


@pytest.mark.parametrize("tag", [3, 4, 5, 6, 255])
def test_stream_element_that_is_never_in_state_is_refused(tag: int) -> None:
    element = parsed(composite(within(STREAMING + "runtime.streamrecord.StreamElementSerializer"), STRING))
    program, data = compile_program(element), bytes([tag]) + bytes(16)
    with pytest.raises(SnapshotError, match="an impossible flag") as caught:
        format_value(program.tree, ByteReader(data))
    assert caught.value.expected == "0 or 1 or 2"
    assert walk_keys(program, np.frombuffer(data, np.uint8), *np.array([[0], [17]])).first_error() is not None


@every_row
def test_versions_that_no_release_writes_are_unknown(class_name: str) -> None:
    row, vector = FLINK_ROWS[class_name], VECTORS[class_name]
    other_snapshots = [snapshot(class_name, version) for version in range(-1, 9) if version not in row.versions]
    if row.outer_versions:
        outer = vector.outer.get(max(row.outer_versions), vector.body)
        unknown_versions = (version for version in range(-1, 9) if version not in row.outer_versions)
        other_snapshots += [
            composite(class_name, *vector.inside, outer=outer, outer_version=version) for version in unknown_versions
        ]
    for data in other_snapshots:
        with pytest.raises(UnknownSerializerError) as error:
            read_snapshot(ByteReader(data))
        assert error.value.class_name == class_name


def test_flink_1_12_wrote_external_types_without_a_flag() -> None:
    data = composite(TYPES + "ExternalSerializer$ExternalSerializerSnapshot", INT, outer=JAVA_OBJECT)
    serializer = parsed(data)
    assert (type_name(serializer), serializer.values("isInternalInput")) == ("External<Int>", ())


@pytest.mark.parametrize("release", [slow(LINES["1.20"]), LINES["2"]])
def test_flink_reads_the_older_versions_of_the_classes_that_it_has(release: str) -> None:
    line = ReleaseLine.parse(release)
    older_snapshots = [
        data
        for class_name, row in FLINK_ROWS.items()
        if row.since <= line <= row.until and row.jar is None
        for data in list(VECTORS[class_name].snapshots(row))[:-1]
    ]
    printed = printed_by(
        Path(__file__).with_name("ReadSnapshots.java"),
        jars=flink_home(release),
        given="\n".join(base64.b64encode(data).decode() for data in older_snapshots),
    )
    assert printed.split("\n")[:-1] == ["0"] * len(older_snapshots)
    assert len(older_snapshots) > 40


def test_the_documentation_lists_the_serializers_whose_values_cannot_be_measured() -> None:
    page = (DOCS / "explanation" / "state.md").read_text(encoding="utf-8")
    section = page.split("### The native format of the hashmap backend\n")[1].split("\n\nWhile ")[0]
    listed_serializers = set(re.findall(r"`(\w+Serializer)`", section.split("|---|---|")[1]))
    measured_for_one_class = KRYO_SNAPSHOT  # only values of `java.util.UUID` are measured
    rows = (row.snapshot for row in FLINK_ROWS.values() if row.values is None or row.snapshot == measured_for_one_class)
    assert listed_serializers == {re.split(r"[.$]", snapshot)[-1].removesuffix("Snapshot") for snapshot in rows}
