"""Slow twin of rekeying, one record at a time: sorting, RocksDB rows, and framing."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from support.canonical import Record, prefix, write_group


class RekeyedRecord(NamedTuple):
    """A record and its new key group."""

    key_group: int
    record: Record


def block(records: Iterable[RekeyedRecord], max_parallelism: int) -> bytes:
    """Return the bytes of the records, without framing, each with its new key group before its key."""
    out = []
    for key_group, (_, key, value) in records:
        full_key = prefix(key_group, max_parallelism) + key
        out.append(struct.pack(">i", len(full_key)) + full_key + struct.pack(">i", len(value)) + value)
    return b"".join(out)


def by_cell(records: Iterable[RekeyedRecord], number_of_states: int) -> dict[int, list[RekeyedRecord]]:
    """Return the records by cell (key group and state), in ascending order of cells."""
    cells: dict[int, list[RekeyedRecord]] = defaultdict(list)
    for moving in records:
        cells[moving.key_group * number_of_states + moving.record.state].append(moving)
    return dict(sorted(cells.items()))


def regrouped(records: Iterable[RekeyedRecord], max_parallelism: int) -> dict[int, bytes]:
    """Return the new key groups, with records in the order of their states; those of a state stay in order."""
    groups: dict[int, list[Record]] = defaultdict(list)
    for moving in sorted(records, key=lambda moving: (moving.key_group, moving.record.state)):
        groups[moving.key_group].append(moving.record)
    return {group: write_group(group, group_records, max_parallelism) for group, group_records in groups.items()}
