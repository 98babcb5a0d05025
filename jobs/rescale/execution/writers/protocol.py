"""What a class of work asks of the writer of a kind of keyed state, and all that it knows of it.

Records that get new key groups are sorted into blocks. A writer makes new streams of them, by four verbs:

    sizes        how long will every key group be? None where that cannot be said before it is written
    lay_out      what has every write range to do? Nothing, for a stream that an earlier try has completed
    open         in a task: a range is begun; it takes its blocks, in order, and when closed says what it wrote
    finish       what the ranges have written becomes files, and these a handle

A *write range* is a run of key groups of one new stream that one task writes. How a stream is cut into ranges must not
be seen in what is written. A writer travels to the tasks as it is, so it holds the plan and nothing that is open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from rescale.execution.tasks import Tasks
from rescale.flink.arrays import Bytes, Longs
from rescale.planning.plan import NewStream
from rescale.target.written_handles import WrittenHandle


class WriteRange(NamedTuple):
    """The key groups `first` to `last` of a new stream, written by the task of `partition`."""

    operator: int
    subtask: int
    first: int
    last: int
    partition: int


class Blocks(Protocol):
    """Sorted blocks of one operator: each a run of records of one slot, one behind the other.

    A slot is key group × `number_of_states` + state id. Blocks are in the order of their slots; those of one slot, and
    the records in each, in the order of the source. A record is (key length: 4 bytes, key with its new key group in
    front, value length: 4 bytes, value), big endian, without any mark of a framing.
    """

    number_of_states: int
    slots: Longs
    sizes: Longs
    """Bytes of each block."""
    lasts: Longs
    """Where in each block its last record begins."""

    def load(self, first: int, last: int) -> tuple[Bytes, Longs]:
        """Bytes in memory, and where in them the blocks from `first` to before `last` begin.

        They may lie in a file so far: ask for a bounded number of bytes at once.
        """

    def __len__(self) -> int:
        """How many blocks there are."""

    def part(self, first: int, last: int) -> Blocks:
        """The blocks from `first` to before `last`, by their numbers."""


class RangeWork(Protocol):
    """What the task of a range has to do; made by `lay_out`, understood by `open`."""

    @property
    def range(self) -> WriteRange: ...

    @property
    def size(self) -> int:
        """Bytes that it writes, for what is told of the progress; an estimate if they are not known."""


class RangeResult(Protocol):
    """What came of a range; given by `close`, understood by `finish`."""

    @property
    def operator(self) -> int: ...

    @property
    def stream(self) -> int: ...


Work = TypeVar("Work", bound=RangeWork)
Result = TypeVar("Result", bound=RangeResult)
Work_contra = TypeVar("Work_contra", bound=RangeWork, contravariant=True)
Result_co = TypeVar("Result_co", bound=RangeResult, covariant=True)


class RangeWriter(Protocol[Result_co]):
    """Writes one range."""

    def take(self, blocks: Blocks) -> None:
        """Called once, with all blocks of the range; there may be none."""

    def close(self) -> Result_co:
        """Makes durable what was written; nothing of it can be seen before `finish`, or it is a whole file."""


@dataclass(frozen=True)
class StreamToWrite:
    """New stream number `stream` of operator number `operator`, and its write ranges in order.

    `blocks` are the bytes of its blocks: a row for each of its key groups, a column for each state.
    """

    operator: int
    number: int
    stream: NewStream
    ranges: tuple[WriteRange, ...]
    blocks: Longs


class KeyedWriter(Protocol[Work, Result]):
    """The writer of one kind, for all streams of that kind in a plan."""

    def may_cut(self, stream: NewStream) -> bool:
        """Whether several tasks may write a stream, each a range of its own."""

    def sizes(self, stream: StreamToWrite) -> Longs | None:
        """The length in bytes of each key group as it will be written, 0 for one without records; None: ask later."""

    def lay_out(self, streams: Sequence[StreamToWrite], there: Mapping[str, int]) -> list[Work]:
        """What there is to do for the ranges of the streams. `there` are the target's files by name, with their sizes.

        Asked once on the driver, when every record has been read and checked.
        """

    def open(self, work: Work) -> RangeWriter[Result]:
        """Begins a range, in a task."""

    def finish(self, tasks: Tasks, streams: Sequence[StreamToWrite], results: Sequence[Result]) -> list[WrittenHandle]:
        """The handles of all streams, whose files then are complete; on the driver.

        `results` are those of the work that was laid out, in no order.
        """
