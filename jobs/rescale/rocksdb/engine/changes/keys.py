"""Many keys in two arrays, which compiled loops can read, and which are pickled quickly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rescale.flink.arrays import Bytes, Longs


@dataclass(frozen=True)
class Keys:
    """Keys end to end in `data`; key i ends at `ends[i]`."""

    data: Bytes
    ends: Longs

    def __iter__(self) -> Iterator[bytes]:
        data, start = self.data.tobytes(), 0
        for end in self.ends.tolist():
            yield data[start:end]
            start = end

    def part(self, begin: int, end: int) -> Keys:
        """Return the keys from `begin` to before `end`."""
        start = int(self.ends[begin - 1]) if begin else 0
        return Keys(self.data[start : int(self.ends[end - 1]) if end else 0], self.ends[begin:end] - start)


NO_KEYS = Keys(np.empty(0, np.uint8), np.empty(0, np.int64))


def keys_of(keys: Sequence[bytes]) -> Keys:
    """Return a sequence of keys as arrays."""
    return Keys(
        np.frombuffer(bytearray(b"".join(keys)), np.uint8), np.cumsum([len(key) for key in keys], dtype=np.int64)
    )


def joined_keys(parts: Sequence[Keys]) -> Keys:
    starts = np.cumsum([0, *(len(part.data) for part in parts)])
    ends = [part.ends + start for part, start in zip(parts, starts[:-1], strict=True)]
    return Keys(np.concatenate([part.data for part in parts]), np.concatenate(ends))
