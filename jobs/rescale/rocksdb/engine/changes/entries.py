"""Decoded entries of data blocks, in arrays that compiled loops can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rescale.flink.arrays import Bytes, Flags, Longs
from rescale.rocksdb.engine.changes.keys import Keys


@dataclass(frozen=True)
class Entries:
    """Decoded entries; entry i has the key `keys[key_starts[i]:key_ends[i]]`.

    Its value is `data[value_starts[i]:value_ends[i]]`. `trailers[i]` is the sequence number of entry i, shifted by 8
    bits, plus its `ValueType`.
    """

    data: Bytes
    keys: Bytes
    key_starts: Longs
    key_ends: Longs
    trailers: Longs
    value_starts: Longs
    value_ends: Longs

    def __len__(self) -> int:
        return len(self.key_ends)

    def select(self, chosen: Longs | Flags) -> Entries:
        """Return the chosen entries; they refer to the same `data` and `keys`."""
        columns = (self.key_starts, self.key_ends, self.trailers, self.value_starts, self.value_ends)
        return Entries(self.data, self.keys, *(column[chosen] for column in columns))

    def part(self, begin: int, end: int) -> Entries:
        """Return the entries from `begin` to before `end`, without the bytes of other entries."""
        if begin == end:
            return NO_ENTRIES
        key_start, key_end = self.key_starts[begin], self.key_ends[end - 1]
        value_start, value_end = self.value_starts[begin], self.value_ends[end - 1]
        return Entries(
            self.data[value_start:value_end],
            self.keys[key_start:key_end],
            self.key_starts[begin:end] - key_start,
            self.key_ends[begin:end] - key_start,
            self.trailers[begin:end],
            self.value_starts[begin:end] - value_start,
            self.value_ends[begin:end] - value_start,
        )

    @property
    def kinds(self) -> Longs:
        """The `ValueType` of each entry."""
        return self.trailers & 0xFF

    def key(self, i: int) -> bytes:
        return self.keys[self.key_starts[i] : self.key_ends[i]].tobytes()

    @property
    def key_column(self) -> Keys:
        """The keys end to end."""
        from rescale.rocksdb.engine.changes.entry_loop import copy_keys

        key_sizes = self.key_ends - self.key_starts
        data = np.empty(int(key_sizes.sum()), np.uint8)
        copy_keys(self.keys, self.key_starts, self.key_ends, data)
        return Keys(data, np.cumsum(key_sizes))


_NO_BYTES, _NO_OFFSETS = np.empty(0, np.uint8), np.empty(0, np.int64)
NO_ENTRIES = Entries(_NO_BYTES, _NO_BYTES, *(_NO_OFFSETS,) * 5)


def joined_entries(parts: Sequence[Entries]) -> Entries:
    if len(parts) == 1:
        return parts[0]
    data_starts = np.cumsum([0, *(len(part.data) for part in parts)])
    keys_starts = np.cumsum([0, *(len(part.keys) for part in parts)])

    def shifted(column_name: str, starts: Longs) -> Longs:
        return np.concatenate(
            [getattr(part, column_name) + start for part, start in zip(parts, starts[:-1], strict=True)]
        )

    return Entries(
        np.concatenate([part.data for part in parts]),
        np.concatenate([part.keys for part in parts]),
        shifted("key_starts", keys_starts),
        shifted("key_ends", keys_starts),
        np.concatenate([part.trailers for part in parts]),
        shifted("value_starts", data_starts),
        shifted("value_ends", data_starts),
    )
