"""Entries of blocks (`Block`, `BlockBuilder`): sorted keys, each without the prefix that it shares with the key before.

    { shared:varint unshared:varint [length of value:varint] key[unshared] value }*  restarts:u32*  number:u32

At a restart, a key is whole. The value in an index is a handle, so its length may be left out. Between restarts, it
may be only the difference between the block's size and that of the block before, right behind which it lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rescale.rocksdb.manifest.edit_reader import EditReader
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE, BlockHandle, read_handle

KIND_SIZE = 8
"""Bytes of `sequence << 8 | type` behind a user key."""

HASH_INDEX = 1 << 31
"""Bit in the number of restarts which says that a hash index follows them in the block."""


class TableRow(NamedTuple):
    """An entry of a data block; `kind` is RocksDB's `ValueType`."""

    key: bytes
    sequence: int
    kind: int
    value: bytes


class IndexEntry(NamedTuple):
    """A block, and its separator: a user key, at least the block's last key and less than the next block's first."""

    separator: bytes
    block: BlockHandle


class IndexFormat(NamedTuple):
    """Format of an index: user keys or internal keys, sizes by difference or not, and with first keys or not."""

    user_keys: bool
    by_difference: bool
    first_keys: bool


def entries(block: bytes, path: str, offset: int, *, tail: bool = False) -> Iterator[tuple[bytes, bytes]]:
    """Yield the key and the value of every entry of a block; `SnapshotError`, with `path` and `offset`, for damage.

    With `tail`, begin at the last restart: this is enough to find the last entry.
    """
    for key, value in value_places(block, path, offset, tail=tail):
        yield key, block[value]


def value_places(block: bytes, path: str, offset: int, *, tail: bool = False) -> Iterator[tuple[bytes, slice]]:
    """Yield the key of every entry and the place of its value in the block. Arguments and errors as `entries`."""
    reader, key = _open(block, path, offset, tail=tail), b""
    while reader.remaining:
        shared, unshared, size = reader.varint32(), reader.varint32(), reader.varint32()
        key = _key(reader, key, shared, unshared)
        begin = reader.position
        reader.raw(size)
        yield key, slice(begin, reader.position)


def rows(block: bytes, path: str, offset: int, *, tail: bool = False) -> Iterator[TableRow]:
    """Yield the entries of a data block. Arguments and errors as `entries`."""
    for key, value in entries(block, path, offset, tail=tail):
        if len(key) < KIND_SIZE:
            raise EditReader(b"", path, offset).error("a key without a sequence number", found=key.hex())
        trailer = int.from_bytes(key[-KIND_SIZE:], "little")
        yield TableRow(key[:-KIND_SIZE], trailer >> 8, trailer & 0xFF, value)


def index_entries(
    block: bytes, form: IndexFormat, path: str, offset: int, *, tail: bool = False
) -> Iterator[IndexEntry]:
    """Yield the entries of an index block (`IndexValue::DecodeFrom`). Arguments and errors as `entries`."""
    reader, key, handle = _open(block, path, offset, tail=tail), b"", BlockHandle(0, 0)
    while reader.remaining:
        shared, unshared = reader.varint32(), reader.varint32()
        if not form.by_difference:
            reader.varint32()
        key = _key(reader, key, shared, unshared)
        if form.by_difference and shared:
            difference = reader.varint()
            signed = difference >> 1 ^ -(difference & 1)
            handle = BlockHandle(handle.offset + handle.size + TRAILER_SIZE, handle.size + signed)
        else:
            handle = read_handle(reader)
        if handle.size < 1:
            raise reader.error("an index names an empty block", found=handle.size)
        if form.first_keys:
            reader.slice()
        yield IndexEntry(key if form.user_keys else key[:-KIND_SIZE], handle)


def _open(block: bytes, path: str, offset: int, *, tail: bool) -> EditReader:
    """Return a reader at the first entry, or at the last restart for the `tail`, that ends behind the last entry."""
    number = int.from_bytes(block[-4:], "little")
    reader = EditReader(block, path, offset)
    if number & HASH_INDEX:
        raise reader.refusal("blocks with a hash index, which is not supported")
    end = len(block) - 4 * (number + 1)
    if end < 0:
        raise reader.error("a block has more restarts than fit into it", found=number)
    reader.end = end
    if tail and number:
        restart = int.from_bytes(block[-8:-4], "little")
        if restart > end:
            raise reader.error("a restart lies outside of its block", expected=f"at most {end}", found=restart)
        reader.position = restart
    return reader


def _key(reader: EditReader, before: bytes, shared: int, unshared: int) -> bytes:
    if shared > len(before):
        raise reader.error(
            "a key shares more bytes with the key before than that has",
            expected=f"at most {len(before)} bytes",
            found=shared,
        )
    return before[:shared] + reader.raw(unshared)
