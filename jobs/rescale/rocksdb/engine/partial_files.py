"""SST files of which only parts are fetched: the end, and the blocks that may have wanted keys.

A file has its full size on disk, with holes where nothing was fetched. If RocksDB reads a hole, it finds a wrong
checksum and reports an error, and never returns a wrong row.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from rescale.flink.arrays import Flags, Longs
from rescale.rocksdb.engine.changes.keys import Keys
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.rocksdb.sst.table import SstTable, read_at
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE
from rescale.rocksdb.stored_files import StoredFile
from rescale.storage.files import owned
from rescale.storage.scratch import scratch_errors
from rescale.storage.store import open_store, read_in_chunks
from rescale.text.errors import UnsupportedError

SMALLEST_PARTIAL_BYTES = 1024 * 1024
"""Smallest size in bytes of a file that is fetched in parts: fetching a smaller file whole takes no more requests."""

_REQUESTS_AT_ONCE = 16
_LARGEST_GAP_BYTES = 128 * 1024
"""Largest gap in bytes between two parts that one request fetches: a second request would take as long as the gap."""

_END_DIVISOR, _SHORTEST_END_BYTES = 64, 64 * 1024
"""Size of the end of a file, which is fetched first: a 64th of the file, at least 64 KiB.

The end usually has the index, the filter and the properties.
"""

_MOST_CACHED_INDEXES = 64
"""Number of files whose indexes are held in memory: keys come in order, so few files are needed at a time."""

T = TypeVar("T")


class _Range(NamedTuple):
    file: StoredFile
    start: int
    end: int


@dataclass(frozen=True)
class _Blocks:
    """The data blocks of a file; `is_fetched` marks those that were fetched."""

    separators: Keys
    offsets: Longs
    sizes: Longs
    is_fetched: Flags

    @property
    def ends(self) -> Longs:
        """Offset of the end of each block, with its trailer."""
        return self.offsets + self.sizes + TRAILER_SIZE


class PartialFiles:
    """The files below `path` that are fetched in parts."""

    def __init__(self, path: Path, files: Iterable[StoredFile]) -> None:
        self._path = path
        self._files = {file.name: file for file in files}
        self._blocks: OrderedDict[str, _Blocks] = OrderedDict()
        self._has_begun = False

    def begin(self) -> None:
        """Create the files; fetch the first data block of each, and everything from the last data block on.

        Does nothing if it was called before.
        """
        if not self._has_begun:
            self._has_begun = True
            self._in_parallel(self._begin, list(self._files.values()))

    def fetch(self, live_files: Sequence[LiveFile], keys: Keys) -> None:
        """Fetch the blocks that RocksDB reads when it looks up sorted keys in these files (`BlockBasedTable::Get`)."""
        if not len(keys.ends):
            return
        first_key, last_key = (next(iter(keys.part(i, i + 1))) for i in (0, len(keys.ends) - 1))
        ranges: list[_Range] = []
        for file in live_files:
            if file.name in self._files and file.smallest_user_key <= last_key and first_key <= file.largest_user_key:
                ranges += self._take_missing(file.name, keys)
        self._in_parallel(self._fetch, ranges)

    def fetch_all(self, names: Iterable[str]) -> None:
        """Fetch these files as a whole."""
        files = [self._files.pop(name) for name in names if name in self._files]
        for file in files:
            self._blocks.pop(file.name, None)
        self._in_parallel(self._fetch, [_Range(file, 0, file.length) for file in files])

    def _take_missing(self, name: str, keys: Keys) -> list[_Range]:
        """Return the unfetched ranges of a file that lookups of `keys` read, and mark them as fetched."""
        from rescale.rocksdb.engine.changes.entry_loop import mark_blocks

        blocks = self._blocks_of(name)
        may_have_rows = np.zeros(len(blocks.sizes), np.bool_)
        mark_blocks(blocks.separators.data, blocks.separators.ends, keys.data, keys.ends, may_have_rows)
        missing_blocks = np.flatnonzero(may_have_rows & ~blocks.is_fetched)
        blocks.is_fetched[missing_blocks] = True
        if not len(missing_blocks):
            return []
        block_starts, block_ends = blocks.offsets[missing_blocks], blocks.ends[missing_blocks]
        is_first = np.append(True, block_starts[1:] - block_ends[:-1] > _LARGEST_GAP_BYTES)
        is_last = np.append(is_first[1:], True)
        range_bounds = zip(block_starts[is_first].tolist(), block_ends[is_last].tolist(), strict=True)
        return [_Range(self._files[name], start, end) for start, end in range_bounds]

    def _blocks_of(self, name: str) -> _Blocks:
        """Return the blocks of a file.

        If its index was evicted from memory, only its first and last block count as fetched.
        """
        if name not in self._blocks:
            with (self._path / name).open("rb") as local_file:
                table = SstTable(partial(read_at, local_file.fileno()), self._files[name].length, self._files[name].uri)
                offsets, sizes = table.data_blocks()
                is_fetched = np.zeros(len(sizes), np.bool_)
                is_fetched[:1] = is_fetched[-1:] = True  # a file with only range tombstones has no block
                self._blocks[name] = _Blocks(Keys(*table.separators()), offsets, sizes, is_fetched)
            if len(self._blocks) > _MOST_CACHED_INDEXES:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(name)
        return self._blocks[name]

    def _begin(self, file: StoredFile) -> None:
        end_start = max(0, file.length - max(_SHORTEST_END_BYTES, file.length // _END_DIVISOR))

        def read(start: int, size: int) -> bytes:
            if start >= end_start:
                with (self._path / file.name).open("rb") as local_file:
                    return read_at(local_file.fileno(), start, size)
            return open_store(file.uri).read(file.uri, file.start + start, size, file.pin)

        with scratch_errors(str(self._path)), os.fdopen(owned.new_file(self._path / file.name), "wb") as out:
            out.truncate(file.length)
        self._fetch(_Range(file, end_start, file.length))
        try:
            offsets, sizes = SstTable(read, file.length, file.uri, file.start).data_blocks()
        except UnsupportedError:  # only RocksDB can read the file
            self.fetch_all([file.name])
            return
        if len(sizes):
            self._fetch(_Range(file, int(offsets[0]), int(offsets[0] + sizes[0]) + TRAILER_SIZE))
        if (last_block_start := int(offsets[-1]) if len(sizes) else 0) < end_start:
            self._fetch(_Range(file, last_block_start, end_start))

    def _fetch(self, missing_range: _Range) -> None:
        file, start, end = missing_range
        with scratch_errors(str(self._path)), os.fdopen(owned.open_for_writing(self._path / file.name), "r+b") as out:
            out.seek(start)
            for chunk in read_in_chunks(file.uri, file.start + start, end - start, file.pin):
                out.write(chunk)

    def _in_parallel(self, work: Callable[[T], None], items: Iterable[T]) -> None:
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
            for _ in pool.map(work, items):
                pass
