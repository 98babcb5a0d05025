"""Slow twin of rekeying, which handles one record at a time: sorting, RocksDB rows, and framing."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from support.canonical import Record, prefix, write_group


class Moving(NamedTuple):
    """A record and its new key group."""

    key_group: int
    record: Record


def block(records: Iterable[Moving], max_parallelism: int) -> bytes:
    """Return a block of the records, without framing, each with its key group before its key."""
    out = []
    for key_group, (_, key, value) in records:
        whole = prefix(key_group, max_parallelism) + key
        out.append(struct.pack(">i", len(whole)) + whole + struct.pack(">i", len(value)) + value)
    return b"".join(out)


def by_cell(records: Iterable[Moving], number_of_states: int) -> dict[int, list[Moving]]:
    """Return the records of every cell, by ascending cell, in the given order."""
    cells: dict[int, list[Moving]] = defaultdict(list)
    for moving in records:
        cells[moving.key_group * number_of_states + moving.record.state].append(moving)
    return dict(sorted(cells.items()))


def regrouped(records: Iterable[Moving], max_parallelism: int) -> dict[int, bytes]:
    """Return the new key groups, with records in the order of their states, then in the given order."""
    groups: dict[int, list[Record]] = defaultdict(list)
    for moving in sorted(records, key=lambda moving: (moving.key_group, moving.record.state)):
        groups[moving.key_group].append(moving.record)
    return {group: write_group(group, some, max_parallelism) for group, some in groups.items()}
