"""Reader of logged changes: the key group and the bytes of each change, in order.

    Change set (`StateChangeFormat`):  groups:i32 { changes:i32 keyGroup:i32 { size:i32 change }* }*
    In `_metadata` (`InMemoryChangelogStateHandle`):  { keyGroup:i32 size:i32 change }*

A file contains the change sets of several writers, after a byte that says whether they are compressed
(`StateChangeFsUploader`). The offset of a change set counts decompressed bytes after that byte. If a change set
contains descriptions of states, they come first, under the key group -1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from rescale.flink.advice import MATERIALISE_CHANGELOG
from rescale.flink.encoding.snappy import decompressed
from rescale.flink.keyed.blocks.record_marks import LARGEST_RECORD_SIZE
from rescale.text.errors import SnapshotError, UnsupportedError

METADATA_KEY_GROUP = -1
"""`AbstractStateChangeLogger.COMMON_KEY_GROUP`."""

LoggedChange = tuple[int, bytes]
"""Key group and bytes of a change."""

_I32 = struct.Struct(">i")
_FLAG_SIZE = 1
_PLAIN_FLAG, _COMPRESSED_FLAG = b"\0", b"\1"


def read_change_set(chunks: Iterable[bytes], offset: int) -> Iterator[LoggedChange]:
    """Yield the changes of the change set at `offset` in a file, and consume only the chunks that it needs.

    Raises `SnapshotError` if there is no complete change set at `offset`, and `UnsupportedError` for a change of more
    than `LARGEST_RECORD_SIZE` bytes.
    """
    later_chunks = iter(chunks)
    first_chunk = next(later_chunks, b"")
    flag, rest_of_first_chunk = first_chunk[:_FLAG_SIZE], first_chunk[_FLAG_SIZE:]
    if flag not in (_PLAIN_FLAG, _COMPRESSED_FLAG):
        raise SnapshotError(
            "not a changelog file", expected="00 or 01 as first byte", found=flag.hex() or "an empty file"
        )
    buffer = _ChunkBuffer(
        _chained(rest_of_first_chunk, later_chunks)
        if flag == _PLAIN_FLAG
        else decompressed(_chained(rest_of_first_chunk, later_chunks))
    )
    buffer.skip(offset)
    for _ in range(buffer.count("key groups")):
        change_count, key_group = buffer.count("changes"), buffer.i32()
        for _ in range(change_count):
            yield key_group, buffer.take(buffer.count("bytes of a change"))


def is_compressed_log(data: bytes) -> bool:
    """Whether the change sets of a file that begins with `data` are compressed; reads one byte."""
    return data[:_FLAG_SIZE] == _COMPRESSED_FLAG


def read_in_memory_changes(chunks: Iterable[bytes]) -> Iterator[LoggedChange]:
    """Yield the changes of an in-memory changelog in `_metadata`. Raises the errors of `read_change_set`."""
    buffer = _ChunkBuffer(chunks)
    while not buffer.is_at_end():
        key_group = buffer.i32()
        yield key_group, buffer.take(buffer.count("bytes of a change"))


def _chained(first_chunk: bytes, later_chunks: Iterable[bytes]) -> Iterator[bytes]:
    yield first_chunk
    yield from later_chunks


class _ChunkBuffer:
    """Buffer over bytes that arrive in chunks, consumed from the front."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._data = b""
        self._at = 0
        self._dropped_bytes = 0

    def i32(self) -> int:
        if len(self._data) - self._at < _I32.size:
            self._fill(_I32.size)
        (number,) = _I32.unpack_from(self._data, self._at)
        self._at += _I32.size
        return int(number)

    def count(self, what: str) -> int:
        number = self.i32()
        if number < 0:
            raise SnapshotError(
                f"a changelog with a negative number of {what}", offset=self._offset, expected="0 or more", found=number
            )
        return number

    def take(self, size: int) -> bytes:
        if len(self._data) - self._at < size:
            self._fill(size)
        self._at += size
        return self._data[self._at - size : self._at]

    def skip(self, size: int) -> None:
        while size > len(self._data) - self._at:
            size -= len(self._data) - self._at
            self._at = len(self._data)
            self._fill(1)
        self._at += size

    def is_at_end(self) -> bool:
        while self._at == len(self._data):
            chunk = next(self._chunks, None)
            if chunk is None:
                return True
            self._dropped_bytes += self._at
            self._data, self._at = bytes(chunk), 0
        return False

    @property
    def _offset(self) -> int:
        return self._dropped_bytes + self._at

    def _fill(self, size: int) -> None:
        """Append chunks until at least `size` bytes are available."""
        if size > LARGEST_RECORD_SIZE:
            raise UnsupportedError(
                "a change is too large to replay",
                offset=self._offset,
                expected=f"at most {LARGEST_RECORD_SIZE} bytes",
                found=f"{size} bytes",
                advice=MATERIALISE_CHANGELOG,
            )
        parts, available_bytes = [self._data[self._at :]], len(self._data) - self._at
        for chunk in self._chunks:
            parts.append(bytes(chunk))
            available_bytes += len(chunk)
            if available_bytes >= size:
                break
        self._dropped_bytes += self._at
        self._data, self._at = b"".join(parts), 0
        if available_bytes < size:
            raise SnapshotError(
                "a changelog ends inside a change",
                offset=self._offset,
                expected=f"{size} more bytes",
                found=available_bytes,
                advice="the file was cut: take another snapshot",
            )
