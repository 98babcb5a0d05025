"""Reader of timers in raw keyed state (`heap_timers`), as batches of canonical records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.flink.encoding.binary import decode_modified_utf8
from rescale.flink.key_groups import prefix_size
from rescale.flink.keyed.blocks.record_marks import LENGTH_SIZE
from rescale.flink.keyed.blocks.records import BUFFER_SIZE, RECORDS_AT_ONCE, Records
from rescale.flink.keyed.group_bytes import GroupBytes
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.timers.heap_timers import BLOCK_HEAD, TimerService, services_of
from rescale.flink.keys.java_hash import ERROR_TEXTS, SUBCLASS, walk_values
from rescale.text.errors import UnsupportedError

_BYTES_BESIDE_TIMER = 8
"""Upper bound of the bytes of a record besides its timer: the number of the key group, and the length of the value."""


class TimerReader:
    """Reads the timers of key groups as records, whose state ids are those of `header` (made by `timer_header`).

    `batch_factor` multiplies the usual size of a batch: `BUFFER_SIZE` bytes or `RECORDS_AT_ONCE` records.
    """

    def __init__(self, header: KeyedHeader, max_parallelism: int, *, batch_factor: int = 1) -> None:
        self._services_by_name = {service.name: (2 * i, service) for i, service in enumerate(services_of(header))}
        self._prefix_size = prefix_size(max_parallelism)
        self._out = np.empty(batch_factor * BUFFER_SIZE, np.uint8)
        self._records_at_once = batch_factor * RECORDS_AT_ONCE
        self._columns = [np.empty(self._records_at_once, np.int64) for _ in range(5)]
        self._record_count = self._filled_bytes = 0

    def read(self, key_groups: Iterable[tuple[int, Iterable[bytes | memoryview]]]) -> Iterator[Records]:
        """Yield all timers of the key groups, in order; each batch overwrites the previous one.

        `key_groups` has (key group, chunks of its bytes). Raises `SnapshotError`, with the offset in the key group, for
        bytes that are not timers, and `UnsupportedError` for a timer service that is not in the header, or a timer with
        an object of a subclass.
        """
        self._record_count = self._filled_bytes = 0
        for key_group, chunks in key_groups:
            block = GroupBytes("raw keyed timers", key_group, chunks)
            if block.take(len(BLOCK_HEAD)) != BLOCK_HEAD:
                raise block.error("does not begin like a block of timers")
            for _ in range(block.non_negative_i32()):
                processing_id, service = self._read_service_head(block)
                yield from self._read_timers(block, service, processing_id + 1)
                yield from self._read_timers(block, service, processing_id)
            block.finish()
        yield from self._take_batch()

    def _read_service_head(self, block: GroupBytes) -> tuple[int, TimerService]:
        """Consume the head of a service; return the id of its state of processing-time timers, and the service."""
        name = block.take(block.u16())
        try:
            processing_id, service = self._services_by_name[decode_modified_utf8(name)]
        except UnicodeError:
            raise block.error("has a service with an invalid name") from None
        except KeyError as unknown:
            # Only an earlier rescale writes key groups with different timer services into one stream.
            raise UnsupportedError(
                f"key group {block.key_group} has a timer service that other key groups of its stream do not have",
                offset=block.offset,
                found=str(unknown),
                advice=f"rescale the snapshot from which this one was made, or {RESCALE_CANONICAL_SAVEPOINT}",
            ) from None
        expected_serializers = service.serializer_bytes
        if block.take(len(expected_serializers)) != expected_serializers:
            raise block.error(f"has timers of {service.name} whose serializers differ from those in other key groups")
        return processing_id, service

    def _read_timers(self, block: GroupBytes, service: TimerService, state_id: int) -> Iterator[Records]:
        from rescale.flink.keyed.timers.timer_loop import copy_timers

        key_starts, key_ends, ends, state_ids, key_groups = self._columns
        timer_program, remaining_count = service.timer_program, block.non_negative_i32()
        while remaining_count:
            if self._record_count == self._records_at_once:
                yield from self._take_batch()
            timer_ends, error_text = walk_values(
                timer_program, block.bytes, block.at, min(remaining_count, self._records_at_once - self._record_count)
            )
            if not len(timer_ends):
                if error_text == ERROR_TEXTS[SUBCLASS]:
                    raise UnsupportedError(
                        f"raw keyed timers have no lengths, and one in key group {block.key_group} contains "
                        f"{error_text}",
                        offset=block.offset,
                        advice=RESCALE_CANONICAL_SAVEPOINT,
                    )
                if not block.fill():
                    raise block.error(f"has a timer that cannot be read: {error_text}")
                continue
            free_slots = slice(self._record_count, self._record_count + len(timer_ends))
            new_timer_count, new_filled_bytes = copy_timers(
                block.bytes,
                block.at,
                timer_ends,
                self._prefix_size,
                self._out,
                self._filled_bytes,
                key_starts[free_slots],
                key_ends[free_slots],
            )
            if not new_timer_count:
                yield from self._take_batch()
                self._make_room(int(timer_ends[0]) - block.at)
                continue
            free_slots = slice(self._record_count, self._record_count + new_timer_count)
            ends[free_slots], state_ids[free_slots], key_groups[free_slots] = (
                key_ends[free_slots] + LENGTH_SIZE,
                state_id,
                block.key_group,
            )
            self._record_count, self._filled_bytes = self._record_count + new_timer_count, new_filled_bytes
            block.at = int(timer_ends[new_timer_count - 1])
            remaining_count -= new_timer_count

    def _take_batch(self) -> Iterator[Records]:
        if self._record_count:
            yield Records(self._out[: self._filled_bytes], *(column[: self._record_count] for column in self._columns))
        self._record_count = self._filled_bytes = 0

    def _make_room(self, timer_size: int) -> None:
        if timer_size + _BYTES_BESIDE_TIMER > len(self._out):
            self._out = np.empty(timer_size + _BYTES_BESIDE_TIMER, np.uint8)
