"""Differences of two sequences of rows that are sorted by their keys, found by a compiled loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rescale.flink.arrays import Bytes, Longs
from rescale.flink.keyed.blocks.records import Records


class Changes(NamedTuple):
    """Changes of one state since the earlier checkpoint: the rows that were removed and added.

    Both sets of rows are sorted by key; a key whose value has changed is in both. The next `Changes` overwrite these
    rows.
    """

    removed: Records
    added: Records


def differences(before: Iterator[Records], after: Iterator[Records]) -> Iterator[Changes]:
    """Yield the differences of two sequences of rows that are sorted by their keys."""
    from rescale.execution.sources.change_loop import mark_differences

    old, new = next(before, None), next(after, None)
    while old is not None or new is not None:
        removed, added = (np.zeros(0 if side is None else len(side), np.bool_) for side in (old, new))
        done = mark_differences(*_columns_of(old), *_columns_of(new), old is None, new is None, removed, added)
        changes = Changes(
            *(
                (_NO_RECORDS if side is None else side.only(slice(number)).only(flags[:number]))
                for side, number, flags in zip((old, new), done, (removed, added), strict=True)
            )
        )
        if len(changes.removed) or len(changes.added):
            yield changes
        old, new = (
            None if side is None else side.only(slice(number, None)) if number < len(side) else next(source, None)
            for side, number, source in zip((old, new), done, (before, after), strict=True)
        )


_NO_RECORDS = Records(np.empty(0, np.uint8), *(np.empty(0, np.int64) for _ in range(5)))


def _columns_of(records: Records | None) -> tuple[Bytes, Longs, Longs, Longs, Longs]:
    rows = _NO_RECORDS if records is None else records
    return rows.data, rows.starts, rows.key_ends, rows.ends, rows.groups
