"""Buffer over the bytes of a key group, for readers of entries without a length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.flink.keyed.blocks.record_marks import LARGEST_RECORD_SIZE
from rescale.text.errors import SnapshotError, UnsupportedError


class EndsTooEarlyError(SnapshotError):
    """A key group ends inside an entry. When pickled, this error becomes a plain `SnapshotError`."""


class GroupBytes:
    """Bytes of a key group, which arrive in chunks.

    `bytes` is the read-only buffer; its bytes before `at` are consumed. `what` names the kind of state in errors.
    """

    def __init__(self, what: str, key_group: int, chunks: Iterable[bytes | memoryview]) -> None:
        self.key_group = key_group
        self.bytes = np.frombuffer(b"", np.uint8)
        self.at = 0
        self._what = what
        self._dropped_bytes = 0
        self._chunks = iter(chunks)

    def fill(self) -> bool:
        """Append chunks until the unconsumed bytes have at least doubled; return whether bytes were added.

        After each call, a reader starts again at the incomplete entry; doubling bounds the number of restarts. Raises
        `UnsupportedError` for an entry of more than `LARGEST_RECORD_SIZE` bytes.
        """
        available_bytes = len(self.bytes) - self.at
        if available_bytes > LARGEST_RECORD_SIZE:
            raise UnsupportedError(
                f"key group {self.key_group} contains an entry that is too large to move",
                offset=self.offset,
                expected=f"at most {LARGEST_RECORD_SIZE} bytes in one piece",
                advice=RESCALE_CANONICAL_SAVEPOINT,
            )
        parts = [self.bytes[self.at :].data]
        added_bytes = 0
        for chunk in self._chunks:
            parts.append(memoryview(chunk))
            added_bytes += len(chunk)
            if added_bytes and added_bytes >= available_bytes:
                break
        self.bytes = np.frombuffer(b"".join(parts), np.uint8)
        self._dropped_bytes += self.at
        self.at = 0
        return added_bytes > 0

    def take(self, size: int) -> bytes:
        """Consume and return the next `size` bytes. Raises `EndsTooEarlyError` if fewer bytes remain."""
        while len(self.bytes) - self.at < size:
            if not self.fill():
                raise self.ends_too_early_error()
        self.at += size
        return self.bytes[self.at - size : self.at].tobytes()

    def take_rest(self) -> Iterator[bytes | memoryview]:
        """Consume and yield all remaining bytes."""
        yield self.bytes[self.at :].data
        yield from self._chunks

    def u16(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def non_negative_i32(self) -> int:
        """Consume and return an `i32`. Raises `SnapshotError` if it is negative."""
        number = int.from_bytes(self.take(4), "big", signed=True)
        if number < 0:
            raise self.error("has a negative number where a count or key group is expected")
        return number

    def finish(self) -> None:
        """Raise `SnapshotError` if bytes remain."""
        if self.at < len(self.bytes) or self.fill():
            raise self.error("has bytes after its end")

    @property
    def offset(self) -> int:
        """Offset of the next byte in the key group."""
        return self._dropped_bytes + self.at

    def error(self, what: str) -> SnapshotError:
        return SnapshotError(self._error_text(what), offset=self.offset)

    def ends_too_early_error(self, what: str = "ends too early") -> EndsTooEarlyError:
        return EndsTooEarlyError(self._error_text(what), offset=self.offset)

    def _error_text(self, what: str) -> str:
        return f"key group {self.key_group} of {self._what} {what}"
