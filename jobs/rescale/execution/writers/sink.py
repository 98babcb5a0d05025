"""Sinks for streams of unknown length: one object if the stream stays small, parts if it grows."""

from __future__ import annotations

from typing import Protocol

from rescale.execution.sources.chunks import Chunk
from rescale.storage.store import open_store


class Sink(Protocol):
    """Receives the bytes of a stream; `size` counts them."""

    size: int

    def write(self, data: Chunk) -> None: ...


class StreamSink:
    """Writes a stream to the file `uri`, and buffers at most `part_size` bytes. An inline stream is only buffered.

    All parts except the last have `part_size` bytes, so the parts do not depend on the sizes of the writes.
    """

    def __init__(self, uri: str, staging: str, part_size: int, *, is_inline: bool) -> None:
        self.size = 0
        self._uri = uri
        self._store = open_store(uri)
        self._staging = staging
        self._part_size = part_size
        self._inline = is_inline
        self._buffer = bytearray()
        self._upload_id: str | None = None
        self._receipts: list[str] = []

    def write(self, data: Chunk) -> None:
        self.size += len(data)
        unwritten = memoryview(data)
        while unwritten and not self._inline:
            if len(self._buffer) == self._part_size:
                self._put_part()
            free_bytes = self._part_size - len(self._buffer)
            self._buffer += unwritten[:free_bytes]
            unwritten = unwritten[free_bytes:]
        self._buffer += unwritten

    def close(self) -> bytes | None:
        """Make the stream durable; return its content if it is inline."""
        if self._inline:
            return bytes(self._buffer)
        if self._upload_id is None:
            self._store.put(self._uri, self._buffer)
            return None
        self._put_part()
        self._store.complete_parts(self._uri, self._upload_id, self._receipts, self.size)
        return None

    def _put_part(self) -> None:
        if self._upload_id is None:
            self._upload_id = self._store.begin_parts(self._uri, self._staging)
        part_number = len(self._receipts) + 1
        offset = (part_number - 1) * self._part_size
        self._receipts.append(self._store.put_part(self._uri, self._upload_id, part_number, offset, self._buffer))
        self._buffer = bytearray()
