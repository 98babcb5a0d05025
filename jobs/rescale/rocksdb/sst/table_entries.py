"""The entries of a block (`Block`, `BlockBuilder`): keys in order, of which each leaves out what it has in common.

    { shared:varint unshared:varint [length of value:varint] key[unshared] value }*  restarts:u32*  number:u32

At a restart a key is whole. In an index a value may do without its length, because it is a handle; and unless its key
is whole, it says only how much larger its block is than the one before, right behind which it lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rescale.rocksdb.manifest.edit_reader import EditReader
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE, BlockHandle, read_handle

KIND_SIZE = 8
"""Bytes of `sequence << 8 | type`, behind the user key."""

HASH_INDEX = 1 << 31
"""Bit in the number of restarts: a hash index follows them in the block."""


class TableRow(NamedTuple):
    """An entry of a data block; `kind` is RocksDB's `ValueType`."""

    key: bytes
    sequence: int
    kind: int
    value: bytes


class IndexEntry(NamedTuple):
    """A block, and a user key that is at least its last and below the first of the next."""

    separator: bytes
    block: BlockHandle


class IndexFormat(NamedTuple):
    """How an index is written: with user keys or internal ones, by difference, and with first keys of blocks."""

    user_keys: bool
    by_difference: bool
    first_keys: bool


def entries(block: bytes, path: str, offset: int, *, tail: bool = False) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of every entry of a block that lies at `offset` of the file; `SnapshotError` for damage.

    Of its `tail`: from the last restart on, so that the last entry costs no more than a few.
    """
    for key, value in value_places(block, path, offset, tail=tail):
        yield key, block[value]


def value_places(block: bytes, path: str, offset: int, *, tail: bool = False) -> Iterator[tuple[bytes, slice]]:
    """The key of every entry, and where in the block its value is; as `entries`."""
    reader, key = _open(block, path, offset, tail=tail), b""
    while reader.remaining:
        shared, unshared, size = reader.varint32(), reader.varint32(), reader.varint32()
        key = _key(reader, key, shared, unshared)
        begin = reader.position
        reader.raw(size)
        yield key, slice(begin, reader.position)


def rows(block: bytes, path: str, offset: int, *, tail: bool = False) -> Iterator[TableRow]:
    """The entries of a data block; as `entries`."""
    for key, value in entries(block, path, offset, tail=tail):
        if len(key) < KIND_SIZE:
            raise EditReader(b"", path, offset).error("a key without a sequence number", found=key.hex())
        trailer = int.from_bytes(key[-KIND_SIZE:], "little")
        yield TableRow(key[:-KIND_SIZE], trailer >> 8, trailer & 0xFF, value)


def index_entries(
    block: bytes, form: IndexFormat, path: str, offset: int, *, tail: bool = False
) -> Iterator[IndexEntry]:
    """The entries of an index block (`IndexValue::DecodeFrom`); as `entries`."""
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
            raise reader.error("a block without a byte", found=handle.size)
        if form.first_keys:
            reader.slice()
        yield IndexEntry(key if form.user_keys else key[:-KIND_SIZE], handle)


def _open(block: bytes, path: str, offset: int, *, tail: bool) -> EditReader:
    """At the first entry, or the one of the last restart, and with its end behind the last one."""
    number = int.from_bytes(block[-4:], "little")
    reader = EditReader(block, path, offset)
    if number & HASH_INDEX:
        raise reader.refusal("blocks with a hash index, which are not read")
    end = len(block) - 4 * (number + 1)
    if end < 0:
        raise reader.error("a block with more restarts than it has room for", found=number)
    reader.end = end
    if tail and number:
        restart = int.from_bytes(block[-8:-4], "little")
        if restart > end:
            raise reader.error("a restart that lies outside its block", expected=f"at most {end}", found=restart)
        reader.position = restart
    return reader


def _key(reader: EditReader, before: bytes, shared: int, unshared: int) -> bytes:
    if shared > len(before):
        raise reader.error(
            "a key that shares more with the one before than that has",
            expected=f"at most {len(before)} bytes",
            found=shared,
        )
    return before[:shared] + reader.raw(unshared)
