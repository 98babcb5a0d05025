"""The snappy framing format, as xerial's `SnappyFramedOutputStream` writes it for Flink.

A stream is an identifier chunk, then chunks of at most 64 KiB of content. A chunk is `type:u8 length:u24` (little
endian), the masked CRC-32C of the content, and the content: compressed (type 0) or, if that saves little, plain (1).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import cramjam
import google_crc32c

from rescale.text.errors import SnapshotError

IDENTIFIER = bytes.fromhex("ff060000734e61507059")
BLOCK_SIZE = 65536
_LARGEST_COMPRESSED_SHARE = 0.85
"""A block is stored plain if its compressed size exceeds this fraction of its size (`minCompressionRatio`)."""

_COMPRESSED_TYPE, _PLAIN_TYPE, _IDENTIFIER_TYPE = 0x00, 0x01, 0xFF
_FIRST_SKIPPABLE_TYPE, _LARGEST_CHUNK_SIZE = 0x80, 4 + 76490
"""Lowest chunk type that readers skip, and size in bytes of the longest chunk.

The longest chunk has the checksum and the largest compressed size of a full block.
"""


class FramedDecompressor:
    """Decompressor of a stream in pieces of any size; checks every checksum.

    A whole stream begins with the identifier. With `has_identifier=False`, the data may also be a part of a stream that
    begins with any chunk, such as an element of operator state.
    """

    def __init__(self, *, has_identifier: bool = True) -> None:
        self._expects_identifier = has_identifier
        self._buffer = bytearray()
        self._position = 0

    def feed(self, data: bytes | memoryview) -> bytes:
        """Add bytes of the stream, and return the content of all complete chunks. Raises `SnapshotError` for damage."""
        self._buffer += data
        out, at = [], 0
        while len(self._buffer) - at >= 4:
            chunk_type = self._buffer[at]
            length = int.from_bytes(self._buffer[at + 1 : at + 4], "little")
            if chunk_type in (_COMPRESSED_TYPE, _PLAIN_TYPE) and length > _LARGEST_CHUNK_SIZE:
                raise self._error("a snappy chunk with an impossible length", length)
            if len(self._buffer) - at - 4 < length:
                break
            out.append(self._content(chunk_type, bytes(self._buffer[at + 4 : at + 4 + length])))
            at += 4 + length
            self._position += 4 + length
        del self._buffer[:at]
        return b"".join(out)

    def finish(self) -> None:
        """Raise `SnapshotError` if the stream ended inside a chunk."""
        if self._buffer:
            raise self._error("the data ends inside a snappy chunk", f"{len(self._buffer)} bytes of it")

    def _content(self, chunk_type: int, body: bytes) -> bytes:
        if chunk_type == _IDENTIFIER_TYPE and body == IDENTIFIER[4:]:
            self._expects_identifier = False
            return b""
        if self._expects_identifier:
            raise self._error("a snappy stream that does not begin with its identifier", f"type {chunk_type:#04x}")
        if chunk_type >= _FIRST_SKIPPABLE_TYPE and chunk_type != _IDENTIFIER_TYPE:
            return b""
        if chunk_type not in (_COMPRESSED_TYPE, _PLAIN_TYPE) or len(body) < 4:
            raise self._error("not a snappy chunk", f"type {chunk_type:#04x}")
        content = body[4:]
        if chunk_type == _COMPRESSED_TYPE:
            try:
                # Check the length first, so that a damaged length does not allocate memory.
                if cramjam.snappy.decompress_raw_len(content) > BLOCK_SIZE:
                    raise self._error("a snappy chunk with more than 64 KiB of content", None)
                content = bytes(cramjam.snappy.decompress_raw(content))
            except cramjam.DecompressionError as error:
                raise self._error(f"a snappy chunk that does not decompress: {error}", None) from None
        if _checksum(content) != body[:4]:
            raise self._error("a snappy chunk with a wrong checksum", _checksum(content).hex(), body[:4].hex())
        return content

    def _error(self, what: str, found: object, expected: object = None) -> SnapshotError:
        return SnapshotError(what, offset=self._position, expected=expected, found=found)


class FramedCompressor:
    """Compressor of content in pieces of any size; the stream does not depend on how the content is cut into pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._has_begun = False

    def feed(self, data: bytes) -> bytes:
        """Add content, and return the bytes of all complete chunks."""
        self._buffer += data
        full_blocks_size = len(self._buffer) // BLOCK_SIZE * BLOCK_SIZE
        out = [] if self._has_begun else [IDENTIFIER]
        self._has_begun = True
        out += [_block_chunk(bytes(self._buffer[i : i + BLOCK_SIZE])) for i in range(0, full_blocks_size, BLOCK_SIZE)]
        del self._buffer[:full_blocks_size]
        return b"".join(out)

    def finish(self) -> bytes:
        """Return the rest of the stream; nothing may be fed afterwards."""
        identifier = self.feed(b"")
        return identifier + (_block_chunk(bytes(self._buffer)) if self._buffer else b"")


def plain_stream(content: bytes) -> bytes:
    """Return a whole stream with one plain chunk, as Flink writes it for a few bytes."""
    return IDENTIFIER + plain_chunk(content)


def plain_chunk(content: bytes) -> bytes:
    """Return a plain chunk of at most 64 KiB of content."""
    return _frame(_PLAIN_TYPE, content, content)


def _block_chunk(content: bytes) -> bytes:
    compressed_content = bytes(cramjam.snappy.compress_raw(content))
    if len(compressed_content) > _LARGEST_COMPRESSED_SHARE * len(content):
        return _frame(_PLAIN_TYPE, content, content)
    return _frame(_COMPRESSED_TYPE, compressed_content, content)


def _frame(chunk_type: int, body: bytes, content: bytes) -> bytes:
    return bytes((chunk_type,)) + (4 + len(body)).to_bytes(3, "little") + _checksum(content) + body


def _checksum(content: bytes) -> bytes:
    """Return the masked CRC-32C of the framing format, little-endian."""
    crc = google_crc32c.value(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def decompressed(chunks: Iterable[bytes | memoryview], *, has_identifier: bool = True) -> Iterator[bytes]:
    """Yield the content of a stream that arrives in pieces. Raises the `SnapshotError` of `FramedDecompressor`."""
    decompressor = FramedDecompressor(has_identifier=has_identifier)
    yield from map(decompressor.feed, chunks)
    decompressor.finish()


def compressed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Compress content that arrives in pieces; yield the stream that `FramedCompressor` writes."""
    compressor = FramedCompressor()
    yield from map(compressor.feed, chunks)
    yield compressor.finish()
