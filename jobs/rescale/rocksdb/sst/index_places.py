"""Fast decoding of an index block, with up to millions of entries, into arrays of block offsets, sizes and separators.

By default every entry of a RocksDB index is a restart point (`index_block_restart_interval` 1). The restart array at
the end of the block then has the offset of each entry, so NumPy decodes all entries at once. `index_entries`, which is
slower, decodes all other indexes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rescale.flink.arrays import Bytes, Longs
from rescale.rocksdb.manifest.edit_reader import KEY_TRAILER_SIZE
from rescale.rocksdb.sst.table_entries import IndexFormat, index_entries

_CONTINUATION_BIT = 0x80
"""Bit in a byte of a varint that says that another byte follows."""

_VARINT_BYTES = 9
"""Largest size in bytes of a varint for a number below 2^63. All offsets of RocksDB are smaller than 2^63."""


def block_offsets(index: bytes, index_format: IndexFormat, path: str, offset: int) -> tuple[Longs, Longs]:
    """Return the offsets and the sizes without trailers, in bytes, of all blocks that an index block names.

    `path` and `offset` are those of the index, for errors. Raises `SnapshotError` for a damaged index.
    """
    decoded_restarts = _decode_restarts(index, index_format)
    if decoded_restarts is not None:
        return decoded_restarts.offsets, decoded_restarts.sizes
    handles = [entry.handle for entry in index_entries(index, index_format, path, offset)]
    offsets, sizes = zip(*handles, strict=True) if handles else ((), ())
    return np.array(offsets, np.int64), np.array(sizes, np.int64)


def key_groups_of_blocks(
    index: bytes, index_format: IndexFormat, prefix_bytes: int, path: str, offset: int
) -> tuple[Longs, Longs]:
    """Return for each block the key group of its separator, and its size without trailer, as two arrays.

    The key group is the number in the first `prefix_bytes` bytes of the separator, padded with zero bytes. The other
    arguments, and the errors, are those of `block_offsets`.
    """
    decoded_restarts = _decode_restarts(index, index_format)
    if decoded_restarts is None:
        entries = list(index_entries(index, index_format, path, offset))
        groups = [int.from_bytes(entry.separator[:prefix_bytes].ljust(prefix_bytes, b"\0"), "big") for entry in entries]
        return np.array(groups, np.int64), np.array([entry.handle.size for entry in entries], np.int64)
    data = np.frombuffer(index, np.uint8)
    key_groups = np.zeros(len(decoded_restarts.sizes), np.int64)
    for i in range(prefix_bytes):
        key_groups = key_groups << 8 | np.where(
            i < decoded_restarts.key_lengths, data[decoded_restarts.key_starts + i], 0
        )
    return key_groups, decoded_restarts.sizes


def separators(index: bytes, index_format: IndexFormat, path: str, offset: int) -> tuple[Bytes, Longs]:
    """Return the user keys of all separators end to end, and where each ends; arguments as in `block_offsets`."""
    decoded_restarts = _decode_restarts(index, index_format)
    if decoded_restarts is None:
        keys = [entry.separator for entry in index_entries(index, index_format, path, offset)]
        return np.frombuffer(bytearray().join(keys), np.uint8), np.cumsum([len(key) for key in keys], dtype=np.int64)
    ends = np.cumsum(decoded_restarts.key_lengths)
    shifts = np.repeat(decoded_restarts.key_starts - ends + decoded_restarts.key_lengths, decoded_restarts.key_lengths)
    return np.frombuffer(index, np.uint8)[shifts + np.arange(len(shifts))], ends


class _IndexEntries(NamedTuple):
    """Offsets and sizes of blocks in the file, and offsets and lengths of their separators' user keys in the index."""

    offsets: Longs
    sizes: Longs
    key_starts: Longs
    key_lengths: Longs


def _decode_restarts(index: bytes, index_format: IndexFormat) -> _IndexEntries | None:
    """Decode an index in which every entry is a restart point with a whole key; return None for any other index."""
    entry_count = int.from_bytes(index[-4:], "little")
    end = len(index) - 4 * (entry_count + 1)
    if end <= 0 or not entry_count:
        return None
    data = np.frombuffer(index, np.uint8)
    entry_starts = np.frombuffer(index, "<u4", entry_count, end).astype(np.int64)
    padded_data = np.concatenate([data[:end], np.zeros(_VARINT_BYTES, np.uint8)])
    shared_sizes, at = _varints(padded_data, np.minimum(entry_starts, end))
    unshared_sizes, at = _varints(padded_data, at)
    if not index_format.is_delta_encoded:
        _, at = _varints(padded_data, at)
    key_starts, key_lengths = at, unshared_sizes if index_format.has_user_keys else unshared_sizes - KEY_TRAILER_SIZE
    offsets, at = _varints(padded_data, np.clip(at + unshared_sizes, 0, end))
    sizes, at = _varints(padded_data, at)
    if index_format.has_first_keys:
        length, at = _varints(padded_data, at)
        at = at + length
    is_plain = not shared_sizes.any() and bool((sizes > 0).all()) and bool((offsets >= 0).all())
    is_plain = is_plain and np.array_equal(at, np.append(entry_starts[1:], end))
    return _IndexEntries(offsets, sizes, key_starts, key_lengths) if is_plain else None


def _varints(data: Bytes, offsets: Longs) -> tuple[Longs, Longs]:
    """Return the varint at each offset, and the offset after it."""
    last_offset = len(data) - 1
    numbers, offsets = np.zeros(len(offsets), np.int64), offsets.copy()
    is_unfinished = np.ones(len(offsets), np.bool_)
    for shift in range(0, 7 * _VARINT_BYTES, 7):
        byte = data[np.minimum(offsets, last_offset)].astype(np.int64)
        numbers += np.where(is_unfinished, (byte & _CONTINUATION_BIT - 1) << shift, 0)
        offsets += is_unfinished
        is_unfinished &= byte >= _CONTINUATION_BIT
        if not is_unfinished.any():
            break
    return numbers, offsets
