"""The protocol between rekeying and the writer of a kind of keyed state.

Records that get new key groups are sorted into blocks. A writer makes new streams of them with four methods:

    range_size   returns how much of a stream a task should write, if the stream may be cut
    lay_out      returns the work of every write range; no work for a stream that an earlier attempt has completed
    write        in a task: writes the sorted blocks of a range and returns the result
    finish       makes files of the ranges' results, and handles of the files

A *write range* is a run of key groups of one new stream that one task writes. The cuts between ranges must either leave
the written bytes the same, or depend on the plan alone. A range may become parts of a file, whose sizes are laid out
beforehand, or whole files of any size: each writer defines its own work and result. A writer also names the `order` in
which it needs the records of a key group and state.

A writer is pickled into the tasks, so it holds the plan and no open resource.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar

from rescale.execution.tasks.protocol import Tasks
from rescale.flink.arrays import Bytes, Longs
from rescale.plan.new_streams import RekeyedStream
from rescale.plan.rekeying import Rekeying
from rescale.runstate.written_handles import WrittenHandle


class RecordOrder(Enum):
    """Order of the records of one key group and state."""

    SOURCE = "source"
    """The order of the source's files, and of the records in each."""

    KEY = "key"
    """The order of the keys' unsigned bytes.

    The writer itself sorts each cell (key group and state) of at most `windows.CELL_BYTES` bytes.
    """


class WriteRange(NamedTuple):
    """The key groups `first` to `last` of a new stream, written by the task of `partition`."""

    operator_index: int
    subtask: int
    first: int
    last: int
    partition: int


class Blocks(Protocol):
    """Sorted blocks of one operator, each a run of records of one cell, end to end.

    The number of a cell is key group × `number_of_states` + state id. Blocks are in the order of their cells. Blocks of
    one cell, and the records in each, are in the order of the source; with `RecordOrder.KEY`, a cell of more than
    `windows.CELL_BYTES` bytes is in the order of keys instead. A record is (key length: 4 bytes, key with its new key
    group in front, value length: 4 bytes, value), big endian, without state ids between records.
    """

    @property
    def number_of_states(self) -> int: ...

    @property
    def cells(self) -> Longs: ...

    @property
    def sizes(self) -> Longs:
        """Bytes of each block."""

    @property
    def last_offsets(self) -> Longs:
        """Offset of the last record in each block."""

    def load(self, begin: int, end: int) -> tuple[Bytes, Longs]:
        """Load the blocks `begin` to `end` (exclusive); return bytes, and the offset of each block in them.

        The blocks may be loaded from a file: load a bounded number of bytes at a time.
        """

    def __len__(self) -> int:
        """Number of blocks."""

    def part(self, begin: int, end: int) -> Blocks:
        """Return the blocks with the numbers `begin` to `end` (exclusive)."""

    def blocks_of_state(self, state_id: int) -> Blocks: ...


class RangeWork(Protocol):
    """Work of a range's task; made by `lay_out`, done by `write`."""

    @property
    def range(self) -> WriteRange: ...

    @property
    def size(self) -> int:
        """Bytes that the task writes, for the progress; an estimate if unknown."""


Work = TypeVar("Work", bound=RangeWork)
Result = TypeVar("Result")


@dataclass(frozen=True)
class StreamToWrite:
    """A rekeyed stream with its write ranges: `plan.operators[operator_index].rekeyed_streams[stream_index]`.

    `block_sizes` has a row for each key group of the stream, and a column for each state, in bytes.
    """

    operator_index: int
    stream_index: int
    stream: RekeyedStream
    ranges: tuple[WriteRange, ...]
    block_sizes: Longs


class KeyedWriter(Protocol[Work, Result]):
    """Writer of streams of one type, for all streams of that type in a plan (`rekeying_run`)."""

    @property
    def order(self) -> RecordOrder: ...

    @property
    def reads_whole_entries(self) -> bool:
        """Whether an entry of heap state is to be one record, as in the native format of the hashmap backend."""

    def range_size(self, rekeying: Rekeying, preferred_size: int) -> int | None:
        """Return the largest size in bytes of a write range of the new streams; None if a stream is one range.

        `preferred_size` is a size at which the whole state has enough ranges to keep many tasks busy.
        """

    def lay_out(self, streams: Sequence[StreamToWrite], existing_sizes: Mapping[str, int]) -> list[Work]:
        """Return the work items of the streams' ranges. `existing_sizes` has the sizes of the target's files by name.

        Called once on the driver, when every record has been read and checked.
        """

    def write(self, work: Work, blocks: Blocks) -> Result:
        """Write a range, in a task, and make it durable.

        The range becomes whole files, or stays invisible until `finish`. There may be no blocks.
        """

    def finish(
        self, tasks: Tasks, streams: Sequence[StreamToWrite], work_items: Sequence[Work], results: Sequence[Result]
    ) -> list[WrittenHandle]:
        """Complete the files of all streams, on the driver; return their handles.

        `work_items` is the result of `lay_out`, `results` has the results of `write`, in any order.
        """
