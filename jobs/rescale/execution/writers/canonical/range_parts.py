"""Writes one write range as parts of a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rescale.execution.sources.chunks import Chunk
from rescale.execution.writers.canonical.parts_layout import PartsWork
from rescale.execution.writers.files import number_of_parts, unpack_receipts
from rescale.storage.store import open_store


class WrittenParts(NamedTuple):
    """Result of a range: packed receipts of its parts from `first_part_number` on, or the size of a whole stream.

    `data` is the content of an inline range, `key_group_lengths` are those of compressed key groups.
    """

    operator_index: int
    stream_index: int
    first_key_group: int
    first_part_number: int = 0
    receipts: bytes = b""
    size: int = 0
    data: bytes | None = None
    key_group_lengths: tuple[int, ...] = ()

    @property
    def numbered_receipts(self) -> Iterator[tuple[int, str]]:
        """Receipts with the numbers of their parts."""
        return enumerate(unpack_receipts(self.receipts) if self.receipts else (), self.first_part_number)


class RangeParts:
    """Writes one range as parts of the file `uri`; stages its first bytes if they share a part with other ranges."""

    def __init__(self, uri: str, work: PartsWork) -> None:
        self.size = 0
        self._uri = uri
        self._work = work
        self._store = open_store(uri)
        self._buffer = bytearray()
        self._bytes_to_stage = work.staged_bytes
        self._parts_to_put = number_of_parts(work.size - work.staged_bytes, work.part_size)
        self._offset = work.offset
        self._receipts: list[str] = []

    def write(self, data: Chunk) -> None:
        self.size += len(data)
        self._buffer += data
        if self._bytes_to_stage and len(self._buffer) >= self._bytes_to_stage:
            self._store.put(self._work.staging_uri, self._take(self._bytes_to_stage))
            self._bytes_to_stage = 0
        while not self._bytes_to_stage and self._parts_to_put > 1 and len(self._buffer) >= self._work.part_size:
            self._put_part(self._work.part_size)

    def close(self) -> list[str]:
        """Make the range durable; return the receipts of its parts."""
        if self._parts_to_put:
            self._put_part(len(self._buffer))
        return self._receipts

    def _put_part(self, size: int) -> None:
        data = self._take(size)
        part_number = self._work.part_number + len(self._receipts)
        self._receipts.append(self._store.put_part(self._uri, self._work.upload_id, part_number, self._offset, data))
        self._offset += size
        self._parts_to_put -= 1

    def _take(self, size: int) -> bytearray:
        """Take the first bytes out of the buffer; copies only the rest, which is small or empty."""
        full_buffer, self._buffer = self._buffer, self._buffer[size:]
        del full_buffer[size:]
        return full_buffer
