"""Writer of timers in raw keyed state (`heap_timers`), from blocks of canonical records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from rescale.flink.arrays import Bytes
from rescale.flink.encoding.binary import ByteWriter
from rescale.flink.key_groups import prefix_size
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.timers.heap_timers import BLOCK_HEAD, services_of

RecordBlock = tuple[Bytes, int, int]
"""A block of records (`block_loop`): a buffer, and the begin and the end of the block in it."""


class TimerWriter:
    """Writes the key groups that `TimerReader` reads; state ids are those of `header`.

    The bytes of a key group do not contain its number. A key group without timers also lists the timer services,
    because Flink writes all services of a subtask.
    """

    def __init__(self, header: KeyedHeader, max_parallelism: int) -> None:
        services = services_of(header)
        self._prefix_size = prefix_size(max_parallelism)
        self._head = BLOCK_HEAD + _i32(len(services))
        self._service_heads = [
            ByteWriter().utf(service.name).raw(service.serializer_bytes).bytes() for service in services
        ]
        self._out = np.empty(0, np.uint8)
        self._empty_group = b"".join(self.write(0, lambda _: ()))

    def empty(self, key_group: int) -> bytes:  # noqa: ARG002
        """Return the bytes of a key group without timers."""
        return self._empty_group

    def write(
        self,
        key_group: int,  # noqa: ARG002
        blocks_of: Callable[[int], Iterable[RecordBlock]],
    ) -> Iterator[bytes | memoryview]:
        """Yield a key group in pieces; each piece overwrites the previous one.

        `blocks_of(state_id)` returns the blocks of a state. The writer calls it twice for each state, because the
        number of timers precedes the timers.
        """
        from rescale.flink.keyed.blocks.block_loop import count_records

        yield self._head
        for service_index, head in enumerate(self._service_heads):
            yield head
            for state_id in (2 * service_index + 1, 2 * service_index):
                yield _i32(sum(count_records(*block) for block in blocks_of(state_id)))
                for block in blocks_of(state_id):
                    yield self._timer_bytes(*block)

    def _timer_bytes(self, data: Bytes, begin: int, end: int) -> memoryview:
        from rescale.flink.keyed.timers.timer_loop import copy_records

        if end - begin > len(self._out):
            self._out = np.empty(end - begin, np.uint8)
        return self._out[: copy_records(data, begin, end, self._prefix_size, self._out)].data


def _i32(number: int) -> bytes:
    return number.to_bytes(4, "big")
