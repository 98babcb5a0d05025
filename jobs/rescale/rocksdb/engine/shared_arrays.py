"""Arrays in memory shared by a process and its child, so that their bytes are not sent through the connection.

A packed message holds the offsets of its arrays in the shared memory, and the unpacked message has views of the same
bytes.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
from typing import Any, NamedTuple

import numpy as np

from rescale.flink.arrays import Bytes, Longs
from rescale.storage.files import owned

_MOST_KEPT_BYTES = 64 * 1024 * 1024
"""Largest shared memory, in bytes, with which a child is kept for the next conversation."""


class _Segment(NamedTuple):
    """Part of the memory file from offset `begin` on, mapped into this process."""

    begin: int
    content: Bytes

    @property
    def address(self) -> int:
        return int(self.content.ctypes.data)


class SharedArrays:
    """Shared memory, made before the fork, in which the parent or the child makes named arrays."""

    def __init__(self) -> None:
        self._file = os.memfd_create("rescale") if hasattr(os, "memfd_create") else _unnamed_file()
        self._size = 0
        self._segments_by_name: dict[str, _Segment] = {}
        self._segments_by_offset: dict[int, _Segment] = {}

    @property
    def descriptor(self) -> int:
        """Descriptor of the memory file."""
        return self._file

    @property
    def is_large(self) -> bool:
        """Whether the memory is too large to be kept for the next conversation, because of a very large row."""
        return os.fstat(self._file).st_size > _MOST_KEPT_BYTES

    def data(self, name: str, size: int) -> Bytes:
        """Return an array of `size` bytes, which replaces the last array of this name.

        Raises `OSError` if memory runs out.
        """
        segment = self._segments_by_name.get(name)
        if segment is None or len(segment.content) < size:
            if segment is not None:
                size = max(size, 2 * len(segment.content))  # old segments stay in the file: doubling bounds their sum
            segment_bytes = -(-size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
            os.ftruncate(self._file, self._size + segment_bytes)
            segment = self._segments_by_name[name] = self._segment(self._size, segment_bytes)
            self._size += segment_bytes
        return segment.content[:size]

    def longs(self, name: str, length: int) -> Longs:
        """Return an array of `length` int64 values; see `data`."""
        return self.data(name, 8 * length).view(np.int64)

    def packed(self, message: Any) -> bytes:
        """Return the pickled message, in which shared arrays are replaced by their offsets."""
        pickle_file = io.BytesIO()
        _Pickler(self, pickle_file).dump(message)
        return pickle_file.getvalue()

    def unpacked(self, message: bytes) -> Any:
        """Return the message; its arrays are views of the shared memory, valid until they are overwritten."""
        return _Unpickler(self, io.BytesIO(message)).load()

    def close(self) -> None:
        """Close the memory file; arrays still in use stay readable."""
        self._segments_by_name.clear()
        self._segments_by_offset.clear()
        os.close(self._file)

    def place_of_array(self, array: np.ndarray[Any, Any]) -> tuple[int, int, int] | None:
        """Return offset and size of a shared array's segment, and the array's offset in it; None for other arrays."""
        address = array.ctypes.data
        for segment in self._segments_by_name.values():
            if segment.address <= address < segment.address + len(segment.content):
                return segment.begin, len(segment.content), address - segment.address
        return None

    def array_at(self, begin: int, size: int, offset: int, length: int) -> Bytes:
        """Return `length` bytes at `offset` of the segment of `size` bytes at `begin`: inverse of `place_of_array`."""
        if begin not in self._segments_by_offset:
            self._segments_by_offset[begin] = self._segment(begin, size)
        return self._segments_by_offset[begin].content[offset : offset + length]

    def _segment(self, begin: int, size: int) -> _Segment:
        return _Segment(begin, np.frombuffer(mmap.mmap(self._file, size, offset=begin), np.uint8))


class _Pickler(pickle.Pickler):
    def __init__(self, arrays: SharedArrays, packed: io.BytesIO) -> None:
        super().__init__(packed, protocol=pickle.HIGHEST_PROTOCOL)
        self._arrays = arrays

    def persistent_id(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray | memoryview) or not value.nbytes:
            return None
        array = np.asarray(value)
        place = self._arrays.place_of_array(array)
        if place is None:
            return None
        return *place, array.nbytes, None if isinstance(value, memoryview) else array.dtype.str


class _Unpickler(pickle.Unpickler):
    def __init__(self, arrays: SharedArrays, packed: io.BytesIO) -> None:
        super().__init__(packed)
        self._arrays = arrays

    def persistent_load(self, pid: Any) -> Any:
        *place, dtype = pid
        content = self._arrays.array_at(*place)
        return content.data if dtype is None else content.view(dtype)


def _unnamed_file() -> int:
    with owned.unnamed_file() as file:
        return os.dup(file.fileno())
