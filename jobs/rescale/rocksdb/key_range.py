"""Convert key groups to a range of RocksDB's user keys, and compare the keys of SST files with this range.

A key begins with its key group, in one byte up to max parallelism 128, else in two (`CompositeKeySerializationUtils`).
RocksDB orders keys by their bytes, so consecutive key groups are one range of keys. A range ends before the key group
after its last one. The number of that key group is at most 128 with one byte, and at most 32768 with two, so it fits
into these bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from rescale.flink.key_groups import KeyGroupRange, prefix_size
from rescale.rocksdb.manifest.version_edit import LiveFile


class Overlap(Enum):
    """Position of a file's keys: all outside a range, all inside it, or on both sides of a bound."""

    OUTSIDE = "outside"
    INSIDE = "inside"
    STRADDLING = "straddling"


@dataclass(frozen=True)
class KeyRange:
    """Range [begin, end) of user keys."""

    begin: bytes
    end: bytes

    def overlap(self, file: LiveFile) -> Overlap:
        """Return where the keys of `file` lie, relative to the range."""
        if self._ends_before(file, self.begin) or file.smallest_user_key >= self.end:
            return Overlap.OUTSIDE
        reaches_outside = self.reaches_below(file) or self.reaches_above(file)
        return Overlap.STRADDLING if reaches_outside else Overlap.INSIDE

    def reaches_below(self, file: LiveFile) -> bool:
        """Return whether `file` may have keys before the range."""
        return file.smallest_user_key < self.begin

    def reaches_above(self, file: LiveFile) -> bool:
        """Return whether `file` may have keys at or after the end of the range."""
        return not self._ends_before(file, self.end)

    def holds(self, files: Iterable[LiveFile]) -> bool:
        """Return whether all files lie inside the range."""
        return all(self.overlap(file) == Overlap.INSIDE for file in files)

    @staticmethod
    def _ends_before(file: LiveFile, key: bytes) -> bool:
        return file.largest_user_key < key or (file.largest_user_key == key and file.is_largest_exclusive)


def key_range(key_groups: KeyGroupRange, max_parallelism: int) -> KeyRange:
    """Return the range of all user keys in these key groups."""
    size = prefix_size(max_parallelism)
    return KeyRange(key_groups.first.to_bytes(size, "big"), (key_groups.last + 1).to_bytes(size, "big"))
