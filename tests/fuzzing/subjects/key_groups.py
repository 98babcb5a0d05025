"""Key groups in canonical framing: fast reader, slow reader and translation of state ids find the same records."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fuzzing.subject import Subject
from rescale.flink.encoding.snappy import decompressed
from rescale.flink.keyed.blocks.canonical import translated_key_group
from rescale.flink.keyed.blocks.records import RecordReader
from rescale.text.errors import SnapshotError
from support.canonical import Record, read_group
from support.snapshots import keyed_streams

_LARGEST_SEED_BYTES = 4096
_COMPRESSED, _TWO_BYTES = 1, 2


def _seeds() -> Iterator[bytes]:
    """Yield seeds: flags, size of chunks, number of states, key group, and its bytes."""
    for keyed in keyed_streams():
        if keyed.stream.framing.value != "canonical" or keyed.stream.parsed is None:
            continue
        flags = _COMPRESSED if keyed.stream.parsed.compressed else 0
        for key_group, content in list(keyed.groups())[:3]:
            if content and len(content) <= _LARGEST_SEED_BYTES:
                yield bytes((flags, 50, len(keyed.stream.parsed.states), 0, key_group)) + content


def _look(data: bytes) -> None:
    head, data = data[:5].ljust(5, b"\0"), data[5:]
    flags, chunk_size, state_count, key_group = head[0], head[1] + 1, head[2], int.from_bytes(head[3:], "big") & 0x7FFF
    max_parallelism = 32768 if flags & _TWO_BYTES else 128
    chunks = [data[at : at + chunk_size] for at in range(0, len(data), chunk_size)]
    if flags & _COMPRESSED:
        content = b"".join(decompressed(chunks))
        assert content == b"".join(decompressed([data]))
        data, chunks = content, [content]
    reader = RecordReader(max_parallelism, state_count)
    key_groups, starts = np.array([key_group], np.int64), np.zeros(1, np.int64)
    records_read = []
    for records in reader.read(key_groups, starts, chunks):
        content = records.data.tobytes()
        columns = (
            column.tolist() for column in (records.state_ids, records.key_starts, records.key_ends, records.ends)
        )
        for state_id, key_start, key_end, end in zip(*columns, strict=True):
            assert key_start <= key_end <= key_end + 4 <= end <= len(content)
            records_read.append((key_group, Record(state_id, content[key_start:key_end], content[key_end + 4 : end])))
    assert records_read == read_group(data, max_parallelism)
    try:
        translated_content = b"".join(translated_key_group(chunks, tuple(range(state_count))))
    except SnapshotError as error:
        raise AssertionError("the readers find all records, but the translation does not") from error
    assert translated_content == data


SUBJECT = Subject(_seeds, _look)
