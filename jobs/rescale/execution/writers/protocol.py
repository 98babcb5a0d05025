"""What a class of work asks of the writer of a kind of keyed state, and all that it knows of it.

Records that get new key groups are sorted into blocks. A writer makes new streams of them, by four verbs:

    range_size   how much of a stream should a task write, if it may be cut at all?
    lay_out      what has every write range to do? Nothing, for a stream that an earlier try has completed
    write        in a task: the sorted blocks of a range are written, and it is said what was
    finish       what the ranges have written becomes files, and these handles

A *write range* is a run of key groups of one new stream that one task writes. How a stream is cut into ranges must not
be seen in what is written, or depend on the plan alone. A range may become parts of a file, whose sizes are then laid
out beforehand, or whole files, of whatever sizes: what a work and its result are is the writer's own business. It also
says in which `order` it wants the records of a key group and state.

A writer travels to the tasks as it is, so it holds the plan and nothing that is open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar

from rescale.execution.tasks import Tasks
from rescale.flink.arrays import Bytes, Longs
from rescale.planning.values.new_streams import RekeyedStream
from rescale.planning.values.operator_plan import OperatorPlan
from rescale.planning.values.rekeying import Rekeying
from rescale.target.written_handles import WrittenHandle


class RecordOrder(Enum):
    """How the records of one key group and state lie one behind the other."""

    SOURCE = "source"
    """As in the source: by the order of its files, and in it."""

    KEY = "key"
    """By the bytes of their keys, without signs; but a slot that fits into memory at once the writer sorts itself."""


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
    the records in each, in the order that the writer wants. A record is (key length: 4 bytes, key with its new key
    group in front, value length: 4 bytes, value), big endian, without any mark of a framing.
    """

    @property
    def number_of_states(self) -> int: ...

    @property
    def slots(self) -> Longs: ...

    @property
    def sizes(self) -> Longs:
        """Bytes of each block."""

    @property
    def lasts(self) -> Longs:
        """Where in each block its last record begins."""

    def load(self, first: int, last: int) -> tuple[Bytes, Longs]:
        """Bytes in memory, and where in them the blocks from `first` to before `last` begin.

        They may lie in a file so far: ask for a bounded number of bytes at once.
        """

    def __len__(self) -> int:
        """How many blocks there are."""

    def part(self, first: int, last: int) -> Blocks:
        """The blocks from `first` to before `last`, by their numbers."""

    def of_state(self, state: int) -> Blocks:
        """Those of the state with that id."""


class RangeWork(Protocol):
    """What the task of a range has to do; made by `lay_out`, understood by `write`."""

    @property
    def range(self) -> WriteRange: ...

    @property
    def size(self) -> int:
        """Bytes that it writes, for what is told of the progress; an estimate if they are not known."""


Work = TypeVar("Work", bound=RangeWork)
Result = TypeVar("Result")


@dataclass(frozen=True)
class StreamToWrite:
    """Stream number `number` of a rekeying of operator number `operator`, and its write ranges in order.

    `blocks` are the bytes of its blocks: a row for each of its key groups, a column for each state.
    """

    operator: int
    number: int
    stream: RekeyedStream
    ranges: tuple[WriteRange, ...]
    blocks: Longs


class KeyedWriter(Protocol[Work, Result]):
    """The writer of one kind, for all streams of that kind in a plan."""

    @property
    def order(self) -> RecordOrder: ...

    def rekeying(self, operator: OperatorPlan) -> Rekeying | None:
        """The one of the operator that makes streams of this kind of sorted blocks; None if there is none."""

    def range_size(self, operator: OperatorPlan, good: int) -> int | None:
        """Bytes that a write range of the operator's streams should have; None if each is to be one range.

        `good` would be good for the number of tasks that there are.
        """

    def lay_out(self, streams: Sequence[StreamToWrite], there: Mapping[str, int]) -> list[Work]:
        """What there is to do for the ranges of the streams. `there` are the target's files by name, with their sizes.

        Asked once on the driver, when every record has been read and checked.
        """

    def write(self, work: Work, blocks: Blocks) -> Result:
        """Writes a range, in a task, and makes it durable.

        Nothing of it can be seen before `finish`, or it is a whole file. There may be no blocks.
        """

    def finish(
        self, tasks: Tasks, streams: Sequence[StreamToWrite], works: Sequence[Work], results: Sequence[Result]
    ) -> list[WrittenHandle]:
        """The handles of all streams, whose files then are complete; on the driver.

        `works` are what was laid out, `results` what came of them, in no order.
        """
