"""Serializer snapshots, and bytes read as values of their type."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fuzzing.subject import Subject, joined, parts_of
from fuzzing.subjects.headers import keyed_headers
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.keyed.header import read_keyed_header
from rescale.flink.keys.java_hash import walk_values
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.reading import read_snapshot, snapshot_bytes, type_name
from rescale.flink.serializers.snapshot import UnknownSerializerError
from rescale.flink.serializers.value_format import format_value
from rescale.text.errors import SnapshotError

_VALUES = b"\0\0\0\1\0\0\0\5hello\0\0\0\0\0\0\0\7\6world" * 3


def _seeds() -> Iterator[bytes]:
    seen = set()
    for header in keyed_headers():
        try:
            keyed_header = read_keyed_header(header, "header")
        except UnknownSerializerError:
            continue
        for snapshot in (
            keyed_header.key_serializer,
            *(serializer for state in keyed_header.states for _, serializer in state.serializers),
        ):
            snapshot_data = snapshot_bytes(snapshot)
            if snapshot_data not in seen:
                seen.add(snapshot_data)
                yield joined(snapshot_data, _VALUES)


def _look(data: bytes) -> None:
    snapshot_data, values = parts_of(data, 2)
    reader = ByteReader(snapshot_data, "header")
    snapshot = read_snapshot(reader)
    assert snapshot_bytes(snapshot) == snapshot_data[: reader.position]
    type_name(snapshot)
    program = compile_program(snapshot)
    with np.errstate(over="ignore"):
        ends, error = walk_values(program, np.frombuffer(values, np.uint8), 0, 5)
    assert len(ends) == 5 or error
    assert all(0 <= low <= high <= len(values) for low, high in zip([0, *ends.tolist()], ends.tolist(), strict=False))
    begin = 0
    for end in ends.tolist():
        value_reader = ByteReader(values, "value", begin)
        try:
            format_value(program.tree, value_reader)
        except SnapshotError:
            return
        assert value_reader.position == end
        begin = end


SUBJECT = Subject(_seeds, _look)
