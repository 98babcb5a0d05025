"""Where a task writes a stream of unknown length: one object if it stays small, parts if it grows."""

from __future__ import annotations

from rescale.execution.chunks import Chunk
from rescale.storage.store import open_store


class StreamSink:
    """Collects a stream and holds at most `part_size` bytes of it; an inline one is handed back by `close`.

    All parts but the last have `part_size` bytes, so the result does not depend on how it was written.
    """

    def __init__(self, uri: str, staging: str, part_size: int, *, inline: bool) -> None:
        self.size = 0
        self._uri = uri
        self._store = open_store(uri)
        self._staging = staging
        self._part_size = part_size
        self._inline = inline
        self._buffer = bytearray()
        self._token: str | None = None
        self._receipts: list[str] = []

    def write(self, data: Chunk) -> None:
        self.size += len(data)
        self._buffer += data
        while not self._inline and len(self._buffer) > self._part_size:
            self._put_part(bytes(self._buffer[: self._part_size]))
            del self._buffer[: self._part_size]

    def close(self) -> bytes | None:
        """Makes the stream durable; returns its content if it is an inline one."""
        rest = bytes(self._buffer)
        if self._inline:
            return rest
        if self._token is None:
            self._store.put(self._uri, rest)
            return None
        self._put_part(rest)
        self._store.complete_parts(self._uri, self._token, self._receipts, self.size)
        return None

    def _put_part(self, data: bytes) -> None:
        if self._token is None:
            self._token = self._store.begin_parts(self._uri, self._staging)
        number = len(self._receipts) + 1
        offset = (number - 1) * self._part_size
        self._receipts.append(self._store.put_part(self._uri, self._token, number, offset, data))
