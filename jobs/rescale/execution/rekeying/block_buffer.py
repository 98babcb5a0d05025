"""Buffer for the blocks of one partition: in memory, or in a scratch file if they are too large."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import IO

import numpy as np

from rescale.flink.arrays import Bytes, Longs
from rescale.storage.scratch import scratch_errors, unnamed_file
from rescale.text.errors import StoreError

MOST_BYTES_IN_MEMORY = 128 * 1024 * 1024

_free_memory: dict[int, list[Bytes]] = defaultdict(list)
"""Memory of closed buffers, by size. The next partition reuses it: fresh memory must be cleared first, which took a
twentieth of the CPU time."""


class BlockBuffer:
    """Stores bytes and returns them by their position; more than `MOST_BYTES_IN_MEMORY` bytes go to a file.

    Loaded bytes are valid until the buffer is closed.
    """

    def __init__(self) -> None:
        self.size = 0
        free = _free_memory[MOST_BYTES_IN_MEMORY]
        self._memory = free.pop() if free else np.empty(MOST_BYTES_IN_MEMORY, np.uint8)
        self._scratch: IO[bytes] | None = None

    def __enter__(self) -> BlockBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        _free_memory[len(self._memory)].append(self._memory)
        if self._scratch is not None:
            self._scratch.close()

    def append(self, data: memoryview) -> int:
        """Store the data and return its position in the buffer."""
        position = self.size
        if self._scratch is None and position + len(data) <= len(self._memory):
            self._memory[position : position + len(data)] = np.frombuffer(data, np.uint8)
        else:
            with scratch_errors():
                if self._scratch is None:
                    self._scratch = unnamed_file()
                    self._scratch.write(self._memory[:position].data)
                self._scratch.write(data)
        self.size += len(data)
        return position

    def load(self, positions: Longs, sizes: Longs) -> tuple[Bytes, Longs]:
        """Return bytes, and the offset of each block in them. `positions` are the blocks' offsets in the buffer.

        Raises `StoreError` if the scratch file is too short.
        """
        if self._scratch is None:
            return self._memory, positions
        self._scratch.flush()
        starts = np.cumsum(sizes) - sizes
        loaded_bytes = memoryview(bytearray(int(sizes.sum())))
        for position, start, size in zip(positions.tolist(), starts.tolist(), sizes.tolist(), strict=True):
            if os.preadv(self._scratch.fileno(), [loaded_bytes[start : start + size]], position) < size:
                raise StoreError("a file of blocks in the scratch directory was truncated")
        return np.frombuffer(loaded_bytes, np.uint8), starts
