"""Subject of fuzzing: a reader of other people's bytes, which may be anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from rescale.text.errors import RescaleError, SnapshotError, UnsupportedError

Look = Callable[[bytes], None]


class Subject(NamedTuple):
    """`look` reads an input as the product would, and asserts that what it takes it for is faithful.

    `seeds` are inputs that it understands, most of them from snapshots that real Flinks took. `refuses` are the errors
    that it may end in.
    Loops that are compiled elsewhere are run by Python, which alone shows where they go, unless it wants them
    `compiled`.
    """

    seeds: Callable[[], Iterator[bytes]]
    look: Look
    refuses: tuple[type[RescaleError], ...] = (SnapshotError, UnsupportedError)
    compiled: bool = False


def try_out(subject: Subject, data: bytes) -> RescaleError | None:
    """The error of ours that an input ends in, told as users and documents are told it; None if it is taken."""
    try:
        subject.look(data)
    except subject.refuses as error:
        msgspec.json.encode([str(error), error.to_json()])
        return error
    return None


def joined(*parts: bytes) -> bytes:
    """Several things as one input: a length of two bytes in front of each but the last."""
    return b"".join(len(part).to_bytes(2, "big") + part for part in parts[:-1]) + parts[-1]


def parts_of(data: bytes, number: int) -> list[bytes]:
    """The mirror of `joined`; what is too short for its lengths ends in empty parts."""
    parts = []
    for _ in range(number - 1):
        size = int.from_bytes(data[:2], "big")
        parts.append(data[2 : 2 + size])
        data = data[2 + size :]
    return [*parts, data]
