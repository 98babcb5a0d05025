"""Protocol by which a step runs its work: tasks that run units of work, and a shuffle of rows between tasks.

Tasks run in worker processes on this machine (`processes`), in Spark (`spark.spark_tasks`), or in this process
(`in_process`). The result must not depend on where a unit runs, in which order, and how often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from rescale.execution.progress import Progress

U = TypeVar("U")
R = TypeVar("R")

Sender = Callable[[Iterable[Sequence[U]]], Iterator[tuple[int, bytes]]]
"""Work of a map task: from batches of units to (partition, row of bytes) pairs."""

MakeSender = Callable[[Callable[[int], None]], Sender[U]]
"""Factory of each task's sender; its argument is a function to which the sender reports the bytes done."""

Weighed = Sequence[tuple[int, U]]
"""Units with their weights, as (weight in bytes, unit)."""


class Shuffle(Protocol):
    """Rows between senders and partitions. They are sent once, when the first partition is requested."""

    def read(self, partition: int, work: Callable[[Iterable[bytes]], R]) -> R:
        """Return the result of `work` on the rows of a partition, which come in any order."""

    def write(
        self, sizes: Mapping[int, int], work: Callable[[int, Iterable[bytes]], Iterator[R]], progress: Progress
    ) -> list[R]:
        """Return the results of `work(partition, rows)` for all partitions in `sizes` (bytes), in any order."""


class Tasks(Protocol):
    """Runs work in tasks. A task returns a final error instead of raising it, so that the task is not tried again."""

    @property
    def cores(self) -> int:
        """Number of tasks that can run at once."""

    def run(
        self, work: Callable[[U], R], units: Weighed[U], progress: Progress, *, threads_suffice: bool = False
    ) -> list[R]:
        """Return the results of `work(unit)` for all units, in any order.

        `threads_suffice` says that nearly all work is done outside of Python, such as copying local files, so that
        threads are as fast as processes. Raises a final error of a unit, or `StoreError` if all attempts of a task
        failed.
        """

    def shuffle(
        self, make_sender: MakeSender[U], units: Weighed[U], partition_count: int, progress: Progress
    ) -> Shuffle:
        """Return a shuffle whose senders (`make_sender`) send the rows of every unit to the partitions."""
