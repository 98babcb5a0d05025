"""Key groups as RocksDB sees them: a range of user keys, in which a file lies, or not, or in part.

A key begins with its key group, and keys are ordered by their bytes, so the rows of some key groups are a range. At
most 128 key groups take one byte and at most 32768 two: the end of the last one can always be written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from rescale.flink.key_groups import KeyGroupRange, prefix_size
from rescale.rocksdb.manifest.version_edit import LiveFile


class Overlap(Enum):
    """Where the keys of a file lie: all of them outside of a range, all inside, or neither."""

    OUTSIDE = "outside"
    INSIDE = "inside"
    STRADDLING = "straddling"


@dataclass(frozen=True)
class KeyRange:
    """The user keys in [begin, end)."""

    begin: bytes
    end: bytes

    def overlap(self, file: LiveFile) -> Overlap:
        if self._ends_before(file, self.begin) or file.smallest >= self.end:
            return Overlap.OUTSIDE
        reaches_out = self.reaches_below(file) or self.reaches_above(file)
        return Overlap.STRADDLING if reaches_out else Overlap.INSIDE

    def reaches_below(self, file: LiveFile) -> bool:
        return file.smallest < self.begin

    def reaches_above(self, file: LiveFile) -> bool:
        return not self._ends_before(file, self.end)

    def holds(self, files: Iterable[LiveFile]) -> bool:
        """Whether no file reaches out."""
        return all(self.overlap(file) == Overlap.INSIDE for file in files)

    @staticmethod
    def _ends_before(file: LiveFile, key: bytes) -> bool:
        return file.largest < key or (file.largest == key and file.exclusive)


def key_range(key_groups: KeyGroupRange, max_parallelism: int) -> KeyRange:
    """The keys of these key groups, with whatever follows the key group."""
    size = prefix_size(max_parallelism)
    return KeyRange(key_groups.first.to_bytes(size, "big"), (key_groups.last + 1).to_bytes(size, "big"))
