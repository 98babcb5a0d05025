"""Expected records of an operator with another max parallelism, computed record by record."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from rescale.flink.encoding.snappy import FramedDecompressor
from rescale.flink.key_groups import key_group_of_hash, key_group_range
from rescale.flink.keyed.header import merge_keyed_headers
from rescale.flink.state_meta_info import StateKind
from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.store import open_store
from support.blocks import RekeyedRecord, regrouped
from support.canonical import Record, read_group
from support.java_values import HASHABLE_LEAVES, BinaryRow, JavaType

_KEY_TYPES: dict[str, JavaType] = {
    **{f"{name}Serializer${name}SerializerSnapshot": kind for name, kind in HASHABLE_LEAVES.items()},
    "RowDataSerializer$RowDataSerializerSnapshot": BinaryRow(),
}


def assert_rekeyed(source_uri: str, target_uri: str) -> None:
    """Check that the result at `target_uri` has exactly the key groups that the slow twin makes from the source."""
    source, result = open_snapshot(source_uri), open_snapshot(target_uri)
    for old, new in zip(source.operators, result.operators, strict=True):
        if old.max_parallelism != new.max_parallelism and old.keyed:
            expected = new_groups(source, old, new.max_parallelism)
            new_contents = {group: data for stream in new.keyed for group, data in contents(result, stream)}
            assert new_contents == expected, f"operator {old.label}"
            for subtask, stream in enumerate(new.keyed):
                own = key_group_range(new.max_parallelism, new.parallelism, subtask)
                assert (stream.subtask, stream.key_groups) == (subtask, own)
                assert stream.parsed == merge_keyed_headers([s.parsed for s in old.keyed if s.parsed]).header


def new_groups(source: Snapshot, operator: Operator, max_parallelism: int) -> dict[int, bytes]:
    """Return the decompressed contents of the new key groups, by number."""
    return dict(sorted(regrouped(_moving(source, operator, max_parallelism), max_parallelism).items()))


def _moving(source: Snapshot, operator: Operator, max_parallelism: int) -> Iterator[RekeyedRecord]:
    """Yield all records with their new key groups, in the order of the source."""
    ids = merge_keyed_headers([stream.parsed for stream in operator.keyed if stream.parsed]).id_maps
    for stream, table in zip(operator.keyed, ids, strict=True):
        for key_group, data in contents(source, stream):
            for found_in, record in read_group(data, operator.max_parallelism):
                code = code_of(stream, record)
                assert found_in == key_group == key_group_of_hash(code, operator.max_parallelism)
                yield RekeyedRecord(
                    key_group_of_hash(code, max_parallelism), record._replace(state=table[record.state])
                )


def code_of(stream: KeyedStream, record: Record) -> int:
    """Return the `hashCode` of a record's key."""
    assert stream.parsed is not None
    key_type = _KEY_TYPES[stream.parsed.key_serializer.class_name.rpartition(".")[2]]
    is_timer = stream.parsed.states[record.state].kind is StateKind.PRIORITY_QUEUE
    return key_type.code(key_type.read(io.BytesIO(record.key[8 if is_timer else 0 :])))


def contents(snapshot: Snapshot, stream: KeyedStream) -> Iterator[tuple[int, bytes]]:
    """Return the decompressed contents of the existing key groups, by number."""
    uri = snapshot.files[stream.extent.file][0]
    data = Path(uri).read_bytes() if uri.startswith("/") else open_store(uri).read_all(uri, 1 << 30)[0]
    for key_group, extent in enumerate(stream.groups, stream.first_key_group):
        if extent is not None:
            content = data[extent.start : extent.start + extent.length]
            compressed = stream.parsed is not None and stream.parsed.compressed
            yield key_group, FramedDecompressor().feed(content) if compressed else content
