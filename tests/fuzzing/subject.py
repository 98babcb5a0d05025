"""Subject of fuzzing: a reader of bytes from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from rescale.text.errors import RescaleError, SnapshotError, UnsupportedError

Look = Callable[[bytes], None]


class Subject(NamedTuple):
    """Subject of fuzzing.

    `look` reads an input as the product would, and asserts that the values agree with the bytes. It may raise the
    errors in `refusals`. `seeds` are valid inputs, most of them from snapshots of real Flinks. Unless the subject is
    `compiled`, loops run in Python, because compiled loops show no coverage.
    """

    seeds: Callable[[], Iterator[bytes]]
    look: Look
    refusals: tuple[type[RescaleError], ...] = (SnapshotError, UnsupportedError)
    compiled: bool = False


def try_out(subject: Subject, data: bytes) -> RescaleError | None:
    """Return the error with which an input is refused, after rendering it for users; None if the input is accepted."""
    try:
        subject.look(data)
    except subject.refusals as error:
        msgspec.json.encode([str(error), error.document()])
        return error
    return None


def joined(*parts: bytes) -> bytes:
    """Return several parts as one input, with a length of two bytes in front of each but the last."""
    return b"".join(len(part).to_bytes(2, "big") + part for part in parts[:-1]) + parts[-1]


def parts_of(data: bytes, count: int) -> list[bytes]:
    """Return the parts of a joined input; if the input is too short, the missing parts are empty."""
    parts = []
    for _ in range(count - 1):
        size = int.from_bytes(data[:2], "big")
        parts.append(data[2 : 2 + size])
        data = data[2 + size :]
    return [*parts, data]
