"""A bounded sample of an operator's keys, to find out how they hash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rescale.flink.keyed.composite_key import key_leads
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.records import Bytes, Longs, RecordReader
from rescale.flink.snappy import FramedDecompressor
from rescale.planning.locate import Extent
from rescale.planning.snapshot import Operator
from rescale.storage.store import Pin, open_store

SAMPLE_SIZE = 4 * 1024 * 1024
_PIECES = 64
_MOST_KEYS = 10_000


class KeySample(NamedTuple):
    """Keys in a buffer, from `starts` on and before `limits`, with the key group of each."""

    data: Bytes
    starts: Longs
    limits: Longs
    groups: Longs


def sample_keys(operator: Operator, header: KeyedHeader, files: Sequence[tuple[str, Pin]]) -> KeySample:
    """From the beginnings of key groups that lie evenly apart, at most `SAMPLE_SIZE` bytes of them."""
    found = [
        (key_group, extent)
        for stream in operator.keyed
        for key_group, extent in enumerate(stream.groups, stream.first_key_group)
        if extent is not None
    ]
    chosen = found[:: -(-len(found) // _PIECES)] if found else []
    leads = key_leads(header)
    keys: list[bytes] = []
    groups: list[int] = []
    for key_group, extent in chosen:
        reader = RecordReader(operator.entry.max_parallelism, len(header.states))
        data = _beginning(files, extent, compressed=header.compressed)
        numbers = np.array([key_group], np.int64)
        for records in reader.read(numbers, np.zeros(1, np.int64), [data], whole=False):
            starts = records.starts + leads[records.states]
            places = list(zip(starts.tolist(), records.limits.tolist(), strict=True))[: _MOST_KEYS // len(chosen) + 1]
            keys += [records.data[start:limit].tobytes() for start, limit in places]
            groups += [key_group] * len(places)
    limits = np.cumsum([len(key) for key in keys], dtype=np.int64)
    starts = limits - np.array([len(key) for key in keys], np.int64)
    return KeySample(np.frombuffer(b"".join(keys), np.uint8), starts, limits, np.array(groups, np.int64))


def _beginning(files: Sequence[tuple[str, Pin]], extent: Extent, *, compressed: bool) -> bytes:
    uri, pin = files[extent.file]
    data = open_store(uri).read(uri, extent.start, min(extent.length, SAMPLE_SIZE // _PIECES), pin)
    return FramedDecompressor().feed(data) if compressed else data
