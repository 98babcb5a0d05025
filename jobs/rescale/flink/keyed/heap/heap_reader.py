"""Reader of the entries of heap key groups (`HeapSnapshotStrategy`), as batches of canonical records.

    keyGroup:i32  { stateId:i16 count:i32 entry* }*

Each state occurs once, in any order. In a compressed stream, each state is a separate snappy stream after the number
of the key group. A list becomes one record, and each item of a map a record. Empty lists and maps become no records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.flink.arrays import Longs
from rescale.flink.encoding.snappy import decompressed
from rescale.flink.key_groups import prefix_size
from rescale.flink.keyed.blocks.record_marks import LARGEST_RECORD_SIZE
from rescale.flink.keyed.blocks.records import BUFFER_SIZE, RECORDS_AT_ONCE, Records
from rescale.flink.keyed.group_bytes import EndsTooEarlyError, GroupBytes
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.heap.heap_entries import EntryKind, EntryLayout, entry_layouts
from rescale.flink.keys.java_hash import ERROR_TEXTS, SUBCLASS
from rescale.flink.serializers.type_tree import is_never_empty
from rescale.text.errors import SnapshotError, UnsupportedError

GROUP_NUMBER_SIZE = 4
"""Size in bytes of a key group's number, which begins the block and is never compressed."""

_KIND_OF_STATE = "the heap"
_INCOMPLETE_CODES = (2, 3)
"""Error codes (indices of `ERROR_TEXTS`) of a value that is damaged, or just incomplete so far."""


class HeapReader:
    """Reads the key groups of streams with this `header`; state ids in records are those of the header.

    `batch_factor` multiplies the usual size of a batch: `BUFFER_SIZE` bytes or `RECORDS_AT_ONCE` records. With
    `reads_whole_entries`, each list or map becomes a single record, whose value has the same bytes as in the entry,
    even if the list or map is empty. Raises `UnsupportedError`, which names the state, if the end of a state's entries
    is unknown.
    """

    def __init__(
        self, header: KeyedHeader, max_parallelism: int, *, batch_factor: int = 1, reads_whole_entries: bool = False
    ) -> None:
        layouts = entry_layouts(header)
        self._loop_arguments = [
            _loop_arguments(layout.as_whole_entries if reads_whole_entries else layout) for layout in layouts
        ]
        self._state_names = header.names
        self._is_compressed = header.compressed
        self._prefix_size = prefix_size(max_parallelism)
        self._out = np.empty(batch_factor * BUFFER_SIZE, np.uint8)
        self._held_key = np.empty(256, np.uint8)
        self._records_at_once = batch_factor * RECORDS_AT_ONCE
        self._columns = [np.empty(self._records_at_once, np.int64) for _ in range(5)]
        self._record_count = self._filled_bytes = 0

    def read(
        self, key_groups: Iterable[tuple[int, Iterable[bytes | memoryview]]], *, is_whole: bool = True
    ) -> Iterator[Records]:
        """Yield all entries of the key groups, in order; each batch overwrites the previous one.

        `key_groups` has (key group, chunks of its bytes). If `is_whole` is false, key groups may be cut off anywhere.
        Raises `SnapshotError` for a damaged key group, with the offset in the key group (0 if it is compressed), and
        `UnsupportedError` for an entry that is too large or has no known end.
        """
        self._record_count = self._filled_bytes = 0
        for key_group, chunks in key_groups:
            try:
                yield from self._read_group(key_group, chunks)
            except EndsTooEarlyError:
                if is_whole:
                    raise
        yield from self._take_batch()

    def _read_group(self, key_group: int, chunks: Iterable[bytes | memoryview]) -> Iterator[Records]:
        block = GroupBytes(_KIND_OF_STATE, key_group, chunks)
        stored_key_group = block.non_negative_i32()
        if stored_key_group != key_group:
            raise SnapshotError(
                f"the block of key group {key_group} of the heap begins with another number",
                offset=0,
                expected=key_group,
                found=stored_key_group,
            )
        if not self._is_compressed:
            yield from self._read_states(block)
            return
        try:
            yield from self._read_states(GroupBytes(_KIND_OF_STATE, key_group, decompressed(block.take_rest())))
        except (SnapshotError, UnsupportedError) as error:
            error.offset = 0
            raise

    def _read_states(self, block: GroupBytes) -> Iterator[Records]:
        unread_states = set(range(len(self._loop_arguments)))
        while unread_states:
            state_id = block.u16()
            if state_id not in unread_states:
                raise block.error(f"contains the state id {state_id}, which is unknown or occurs twice")
            unread_states.remove(state_id)
            entry_count = block.non_negative_i32()
            if entry_count > 1 and not self._loop_arguments[state_id].is_never_empty:
                raise block.error(
                    f"counts {entry_count} entries of the state with id {state_id}, which can have only one"
                )
            if entry_count:
                yield from self._read_entries(block, state_id, entry_count)
        block.finish()

    def _read_entries(self, block: GroupBytes, state_id: int, entry_count: int) -> Iterator[Records]:
        from rescale.flink.keyed.heap import heap_loop

        key_starts, key_ends, ends, state_ids, key_groups = self._columns
        arguments, progress = self._loop_arguments[state_id], np.array([entry_count, 0, 0], np.int64)
        while progress[heap_loop.ENTRIES_LEFT] or progress[heap_loop.ITEMS_LEFT]:
            free_slots = slice(self._record_count, self._records_at_once)
            with np.errstate(over="ignore"):  # hashes overflow on purpose, and without numba NumPy would warn
                new_record_count, block.at, self._filled_bytes, error_code = heap_loop.copy_entries(
                    block.bytes,
                    block.at,
                    arguments.kind,
                    *arguments.programs,
                    arguments.depth,
                    arguments.has_lengths,
                    self._prefix_size,
                    progress,
                    self._held_key,
                    self._out,
                    self._filled_bytes,
                    key_starts[free_slots],
                    key_ends[free_slots],
                    ends[free_slots],
                )
            free_slots = slice(self._record_count, self._record_count + new_record_count)
            state_ids[free_slots], key_groups[free_slots] = state_id, block.key_group
            self._record_count += new_record_count
            if error_code == heap_loop.NO_ROOM_TO_HOLD:
                self._held_key = np.empty(2 * len(self._held_key), np.uint8)
            elif self._record_count and (
                error_code == heap_loop.NO_ROOM or self._record_count == self._records_at_once
            ):
                yield from self._take_batch()
            elif error_code == heap_loop.NO_ROOM:
                self._out = np.empty(2 * len(self._out), np.uint8)
                self._check_size(block, state_id)
            elif error_code and not (error_code in _INCOMPLETE_CODES and block.fill()):
                raise self._error(block, state_id, error_code)

    def _take_batch(self) -> Iterator[Records]:
        if self._record_count:
            yield Records(self._out[: self._filled_bytes], *(column[: self._record_count] for column in self._columns))
        self._record_count = self._filled_bytes = 0

    def _check_size(self, block: GroupBytes, state_id: int) -> None:
        if len(self._out) > 2 * LARGEST_RECORD_SIZE:
            raise UnsupportedError(
                f"key group {block.key_group} contains an entry that is too large to move",
                offset=block.offset,
                state=self._state_names[state_id],
                expected=f"at most {LARGEST_RECORD_SIZE} bytes",
                advice=RESCALE_CANONICAL_SAVEPOINT,
            )

    def _error(self, block: GroupBytes, state_id: int, error_code: int) -> SnapshotError | UnsupportedError:
        if error_code == SUBCLASS:
            return UnsupportedError(
                f"entries of the heap's format have no lengths, and an entry in key group {block.key_group} contains "
                f"{ERROR_TEXTS[error_code]}",
                offset=block.offset,
                state=self._state_names[state_id],
                advice=RESCALE_CANONICAL_SAVEPOINT,
            )
        what = f"has an entry that cannot be read: {ERROR_TEXTS[error_code]}"
        ends_too_early = error_code in _INCOMPLETE_CODES
        error = block.ends_too_early_error(what) if ends_too_early else block.error(what)
        return error.located(state=self._state_names[state_id])


class _LoopArguments(NamedTuple):
    """Arguments of `copy_entries` for a state, and whether each of its entries has at least one byte."""

    kind: int
    programs: tuple[Longs, Longs, Longs, Longs]
    depth: int
    has_lengths: int
    is_never_empty: bool


def _loop_arguments(layout: EntryLayout) -> _LoopArguments:
    from rescale.flink.keys.lowering import lower

    has_count = layout.kind in (EntryKind.LIST, EntryKind.MAP)
    namespace, key, first, second = map(
        lower, (layout.namespace_tree, layout.key_tree, layout.first_tree, layout.second_tree)
    )
    return _LoopArguments(
        int(layout.kind),
        (namespace[0], key[0], first[0], second[0]),
        max(depth for _, depth in (namespace, key, first, second)),
        int(layout.has_lengths),
        has_count or any(map(is_never_empty, (layout.namespace_tree, layout.key_tree, layout.first_tree))),
    )
