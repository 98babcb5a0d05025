"""Short answers of commands, as typed values."""

from __future__ import annotations

import msgspec


class DiscardAnswer(msgspec.Struct, frozen=True):
    """URIs of the files that `discard` removed, and of those that it kept because no run had written them."""

    removed: tuple[str, ...]
    left: tuple[str, ...]


class WrittenReport(msgspec.Struct, frozen=True):
    """URI of the page that `report` wrote, and its size."""

    report: str
    bytes: int


class SmallestKeys(msgspec.Struct, frozen=True):
    """Smallest key of every subtask, in order, by the Java type of the key: the answer of `virtual-keys`."""

    max_parallelism: int
    parallelism: int
    keys: dict[str, tuple[int, ...]]
