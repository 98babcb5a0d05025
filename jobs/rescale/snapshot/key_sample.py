"""Reads a bounded sample of an operator's keys, from which Rescale finds the hash function of the keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from rescale.flink.arrays import Bytes, Longs
from rescale.flink.encoding.snappy import FramedDecompressor
from rescale.flink.keyed.blocks.records import RecordReader, Records
from rescale.flink.keyed.composite_key import key_offsets
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.heap.heap_reader import GROUP_NUMBER_SIZE, HeapReader
from rescale.flink.keyed.key_group_table import Framing
from rescale.snapshot.databases.sample import database_keys
from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Operator
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.text.errors import SnapshotError

SAMPLE_BYTES = 4 * 1024 * 1024
_MOST_KEY_GROUPS = 64
_MOST_KEYS = 10_000


class KeySample(NamedTuple):
    """Sampled keys: key i is at the start of `data[starts[i]:limits[i]]`, in key group `groups[i]`.

    The bytes after the key are the rest of its record's key, such as the namespace.
    """

    data: Bytes
    starts: Longs
    limits: Longs
    groups: Longs


def sample_keys(operator: Operator, files: SnapshotFiles) -> KeySample:
    """Return keys from evenly spaced places in streams and databases, from at most `SAMPLE_BYTES` bytes of each kind.

    The sample leaves out streams with an unknown serializer in their header, and the changes of changelogs. Raises
    `SnapshotError` if records cannot be read.
    """
    sample = [*_stream_keys(operator, files), *database_keys(operator, files, SAMPLE_BYTES, _MOST_KEYS)]
    keys, groups = [key for _, key in sample], [key_group for key_group, _ in sample]
    key_ends = np.cumsum([len(key) for key in keys], dtype=np.int64)
    starts = key_ends - np.array([len(key) for key in keys], np.int64)
    return KeySample(np.frombuffer(b"".join(keys), np.uint8), starts, key_ends, np.array(groups, np.int64))


def _stream_keys(operator: Operator, files: SnapshotFiles) -> Iterator[tuple[int, bytes]]:
    """Yield (key group, key) pairs from the beginnings of evenly spaced key groups."""
    materialised_streams = (
        part for changelog in operator.changelogs for part in changelog.base if isinstance(part, KeyedStream)
    )
    filled_groups = [
        (stream, key_group, extent)
        for stream in (*operator.keyed, *materialised_streams)
        for key_group, extent in stream.filled_groups
        if stream.parsed is not None
    ]
    chosen_groups = filled_groups[:: -(-len(filled_groups) // _MOST_KEY_GROUPS)] if filled_groups else []
    keys_per_group = _MOST_KEYS // len(chosen_groups) + 1 if chosen_groups else 0
    for stream, key_group, extent in chosen_groups:
        for key in islice(keys_of_group(operator.max_parallelism, stream, files, key_group, extent), keys_per_group):
            yield key_group, key


def keys_of_group(
    max_parallelism: int, stream: KeyedStream, files: SnapshotFiles, key_group: int, extent: Extent
) -> Iterator[bytes]:
    """Yield the keys in the first 64 KiB of a key group, each with the rest of its record's key (namespace, map key).

    All serializers in the header of the stream must be known. Raises `SnapshotError` if records cannot be read.
    """
    header = stream.parsed
    if header is None:
        raise ValueError(f"the header of subtask {stream.subtask} is not understood")
    key_offset_by_state = key_offsets(header)
    try:
        data = files.beginning(extent, SAMPLE_BYTES // _MOST_KEY_GROUPS)
        read_records = _heap_records if stream.framing is Framing.HEAP else _canonical_records
        for records in read_records(header, max_parallelism, key_group, data):
            starts = records.key_starts + key_offset_by_state[records.state_ids]
            for start, end in zip(starts.tolist(), records.key_ends.tolist(), strict=True):
                yield records.data[start:end].tobytes()
    except SnapshotError as error:
        if error.path is None:
            error.offset = None if header.compressed else extent.start + (error.offset or 0)
        raise error.located(path=files.uri(extent)) from None


def _canonical_records(header: KeyedHeader, max_parallelism: int, key_group: int, data: bytes) -> Iterator[Records]:
    reader = RecordReader(max_parallelism, len(header.states))
    groups, start = np.array([key_group], np.int64), np.zeros(1, np.int64)
    decompressed = FramedDecompressor().feed(data) if header.compressed else data
    return reader.read(groups, start, [decompressed], is_whole=False)


def _heap_records(header: KeyedHeader, max_parallelism: int, key_group: int, data: bytes) -> Iterator[Records]:
    reader = HeapReader(replace(header, compressed=False), max_parallelism)
    count_field, stored_states = data[:GROUP_NUMBER_SIZE], data[GROUP_NUMBER_SIZE:]
    decompressed = FramedDecompressor().feed(stored_states) if header.compressed else stored_states
    return reader.read([(key_group, [count_field, decompressed])], is_whole=False)
