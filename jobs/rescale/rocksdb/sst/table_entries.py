"""Entries of blocks (`Block`, `BlockBuilder`): sorted keys, each without the prefix shared with the previous key.

    { sharedLength:varint keyLength:varint [ valueLength:varint ] key value }*  restarts:u32*  numberOfRestarts:u32

A key at a restart point is whole. The value of an index entry is a block handle, so `valueLength` may be left out.
Between restart points, the value may be delta encoded: as the size of the block minus the size of the previous block,
which ends where the block begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rescale.rocksdb.manifest.edit_reader import KEY_TRAILER_SIZE, EditReader
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE, BlockHandle, read_handle

HASH_INDEX_FLAG = 1 << 31
"""Bit in the number of restart points that says that a hash index follows them in the block."""


class TableRow(NamedTuple):
    """An entry of a data block; `kind` is RocksDB's `ValueType`."""

    key: bytes
    sequence: int
    kind: int
    value: bytes


class IndexEntry(NamedTuple):
    """Handle of a block, and its separator: a user key from the block's last key to the next block's first key."""

    separator: bytes
    handle: BlockHandle


class IndexFormat(NamedTuple):
    """Format of an index: whether its keys are user keys, handles are delta encoded, and entries have first keys."""

    has_user_keys: bool
    is_delta_encoded: bool
    has_first_keys: bool


def entries(block: bytes, path: str, offset: int, *, only_tail: bool = False) -> Iterator[tuple[bytes, bytes]]:
    """Yield the key and the value of every entry of a block.

    With `only_tail`, begin at the last restart point, which is enough to find the last entry. `path` and `offset` are
    those of the block, for errors. Raises `SnapshotError` for a damaged block.
    """
    for key, value in value_slices(block, path, offset, only_tail=only_tail):
        yield key, block[value]


def value_slices(block: bytes, path: str, offset: int, *, only_tail: bool = False) -> Iterator[tuple[bytes, slice]]:
    """Yield the key of every entry and the slice of its value in the block; arguments and errors as in `entries`."""
    reader, key = _entry_reader(block, path, offset, only_tail=only_tail), b""
    while reader.remaining:
        shared_size, unshared_size, value_size = reader.varint32(), reader.varint32(), reader.varint32()
        key = _key(reader, key, shared_size, unshared_size)
        begin = reader.position
        reader.raw(value_size)
        yield key, slice(begin, reader.position)


def rows(block: bytes, path: str, offset: int, *, only_tail: bool = False) -> Iterator[TableRow]:
    """Yield the entries of a data block; arguments and errors as in `entries`."""
    for key, value in entries(block, path, offset, only_tail=only_tail):
        if len(key) < KEY_TRAILER_SIZE:
            raise EditReader(b"", path, offset).error("a key has no sequence number", found=key.hex())
        trailer = int.from_bytes(key[-KEY_TRAILER_SIZE:], "little")
        yield TableRow(key[:-KEY_TRAILER_SIZE], trailer >> 8, trailer & 0xFF, value)


def index_entries(
    block: bytes, index_format: IndexFormat, path: str, offset: int, *, only_tail: bool = False
) -> Iterator[IndexEntry]:
    """Yield the entries of an index block (`IndexValue::DecodeFrom`); arguments and errors as in `entries`."""
    reader, key, handle = _entry_reader(block, path, offset, only_tail=only_tail), b"", BlockHandle(0, 0)
    while reader.remaining:
        shared_size, unshared_size = reader.varint32(), reader.varint32()
        if not index_format.is_delta_encoded:
            reader.varint32()
        key = _key(reader, key, shared_size, unshared_size)
        if index_format.is_delta_encoded and shared_size:
            encoded_difference = reader.varint()
            signed_difference = encoded_difference >> 1 ^ -(encoded_difference & 1)
            handle = BlockHandle(handle.offset + handle.size + TRAILER_SIZE, handle.size + signed_difference)
        else:
            handle = read_handle(reader)
        if handle.size < 1:
            raise reader.error("an index names an empty block", found=handle.size)
        if index_format.has_first_keys:
            reader.slice()
        yield IndexEntry(key if index_format.has_user_keys else key[:-KEY_TRAILER_SIZE], handle)


def _entry_reader(block: bytes, path: str, offset: int, *, only_tail: bool) -> EditReader:
    """Return a reader of the entries of a block, at the first entry or, with `only_tail`, at the last restart point."""
    restart_count = int.from_bytes(block[-4:], "little")
    reader = EditReader(block, path, offset)
    if restart_count & HASH_INDEX_FLAG:
        raise reader.refusal("blocks with a hash index, which is not supported")
    end = len(block) - 4 * (restart_count + 1)
    if end < 0:
        raise reader.error("a block has more restart points than fit into it", found=restart_count)
    reader.end = end
    if only_tail and restart_count:
        restart_offset = int.from_bytes(block[-8:-4], "little")
        if restart_offset > end:
            raise reader.error(
                "a restart point lies outside of its block", expected=f"at most {end}", found=restart_offset
            )
        reader.position = restart_offset
    return reader


def _key(reader: EditReader, previous_key: bytes, shared_size: int, unshared_size: int) -> bytes:
    if shared_size > len(previous_key):
        raise reader.error(
            "a key shares more bytes with the previous key than that key has",
            expected=f"at most {len(previous_key)} bytes",
            found=shared_size,
        )
    return previous_key[:shared_size] + reader.raw(unshared_size)
