"""The bytes of one key group as they come, for those who find out only by reading how many they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from rescale.errors import SnapshotError, UnsupportedError
from rescale.flink.advice import CANONICAL
from rescale.flink.keyed.blocks.record_marks import LARGEST_RECORD


class EndsTooEarly(SnapshotError):  # noqa: N818
    """There are fewer bytes than what they hold needs. It crosses process borders as the `SnapshotError` that it is."""

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "error": SnapshotError.__name__}


class GroupBytes:
    """`bytes` are here, read-only, and those before `at` have been used up; `what` says in errors what the group is."""

    def __init__(self, what: str, key_group: int, chunks: Iterable[bytes | memoryview]) -> None:
        self.key_group = key_group
        self.bytes = np.frombuffer(b"", np.uint8)
        self.at = 0
        self._what = what
        self._behind = 0
        self._chunks = iter(chunks)

    def fill(self) -> bool:
        """Takes at least as many more as there are, so that nothing is looked at often; whether there were any."""
        there = len(self.bytes) - self.at
        if there > LARGEST_RECORD:
            raise UnsupportedError(
                f"key group {self.key_group} holds what is larger than can be moved",
                offset=self.offset,
                expected=f"at most {LARGEST_RECORD} bytes in one piece",
                advice=CANONICAL,
            )
        parts = [self.bytes[self.at :].data]
        more = 0
        for chunk in self._chunks:
            parts.append(memoryview(chunk))
            more += len(chunk)
            if more and more >= there:
                break
        self.bytes = np.frombuffer(b"".join(parts), np.uint8)
        self._behind += self.at
        self.at = 0
        return more > 0

    def take(self, size: int) -> bytes:
        while len(self.bytes) - self.at < size:
            if not self.fill():
                raise self.ends_too_early()
        self.at += size
        return self.bytes[self.at - size : self.at].tobytes()

    def rest(self) -> Iterator[bytes | memoryview]:
        """All that is left, which is used up by this."""
        yield self.bytes[self.at :].data
        yield from self._chunks

    def short(self) -> int:
        """`u16`."""
        return int.from_bytes(self.take(2), "big")

    def number(self) -> int:
        """`i32`."""
        number = int.from_bytes(self.take(4), "big", signed=True)
        if number < 0:
            raise self.error("holds a count that cannot be")
        return number

    def finish(self) -> None:
        if self.at < len(self.bytes) or self.fill():
            raise self.error("has bytes behind its end")

    @property
    def offset(self) -> int:
        return self._behind + self.at

    def error(self, what: str) -> SnapshotError:
        return SnapshotError(self._sentence(what), offset=self.offset)

    def ends_too_early(self, what: str = "ends too early") -> EndsTooEarly:
        return EndsTooEarly(self._sentence(what), offset=self.offset)

    def _sentence(self, what: str) -> str:
        return f"a key group of {self._what} {what}: key group {self.key_group}"
