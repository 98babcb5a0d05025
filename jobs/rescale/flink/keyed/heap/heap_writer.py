"""Writer of heap key groups (`HeapSnapshotStrategy`), from blocks of records that are whole entries."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from rescale.flink.arrays import Bytes
from rescale.flink.encoding.snappy import compressed
from rescale.flink.key_groups import prefix_size
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.heap.heap import empty_group
from rescale.flink.keyed.heap.heap_entries import EntryKind, entry_layouts
from rescale.flink.keyed.timers.timer_writer import RecordBlock
from rescale.text.errors import IntegrityError

_STATE_HEAD = struct.Struct(">hi")


class HeapWriter:
    """Writes the key groups that `HeapReader` reads as whole entries; state ids are those of `header`.

    Raises the errors of `entry_layouts`.
    """

    def __init__(self, header: KeyedHeader, max_parallelism: int) -> None:
        from rescale.flink.keys.lowering import lower

        self._header = header
        self._layouts = entry_layouts(header)
        self._key_programs = [lower(layout.key_tree) for layout in self._layouts]
        self._prefix_size = prefix_size(max_parallelism)
        self._out = np.empty(0, np.uint8)

    def empty(self, key_group: int) -> bytes:
        """Return the bytes of a key group without entries."""
        return empty_group(key_group, self._header)

    def write(self, key_group: int, blocks_of: Callable[[int], Iterable[RecordBlock]]) -> Iterator[bytes | memoryview]:
        """Yield a key group in pieces; each piece overwrites the previous one.

        `blocks_of(state_id)` returns the blocks of a state. The writer calls it twice for each state, because the
        number of entries precedes the entries. Raises `IntegrityError`, which names the state, for a malformed key.
        """
        yield key_group.to_bytes(4, "big")
        for state_id in range(len(self._layouts)):
            pieces = self._state_bytes(state_id, blocks_of)
            if self._header.compressed:
                yield from compressed(map(bytes, pieces))
            else:
                yield from pieces

    def _state_bytes(
        self, state_id: int, blocks_of: Callable[[int], Iterable[RecordBlock]]
    ) -> Iterator[bytes | memoryview]:
        from rescale.flink.keyed.blocks.block_loop import count_records

        yield _STATE_HEAD.pack(state_id, sum(count_records(*block) for block in blocks_of(state_id)))
        for block in blocks_of(state_id):
            yield self._entry_bytes(state_id, *block)

    def _entry_bytes(self, state_id: int, data: Bytes, begin: int, end: int) -> memoryview:
        from rescale.flink.keyed.heap.heap_write_loop import write_entries

        if end - begin > len(self._out):
            self._out = np.empty(end - begin, np.uint8)
        layout, (instructions, depth) = self._layouts[state_id], self._key_programs[state_id]
        read_only = data.view()
        # A writeable array is another type, for which numba would compile the loop again.
        read_only.flags.writeable = False
        is_queue = int(layout.kind is EntryKind.QUEUE_ELEMENT)
        with np.errstate(over="ignore"):  # hashes overflow on purpose, and without numba NumPy would warn
            size = write_entries(
                read_only,
                begin,
                end,
                self._prefix_size,
                is_queue,
                instructions,
                depth,
                int(layout.has_lengths),
                self._out,
            )
        if size < 0:
            state_name = self._header.states[state_id].name
            raise IntegrityError(
                "the key of a record cannot be read, so the record cannot be written", state=state_name
            )
        return self._out[:size].data
