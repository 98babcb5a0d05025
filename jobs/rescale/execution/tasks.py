"""What the steps ask of whoever does their work: units worked through by tasks, and rows shuffled between tasks.

There are two forms: Spark (`spark.spark_tasks`), and a plain loop in this process (`loop`). Where work is done, in
which order and how often must not be seen in what comes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from rescale.execution.progress import Progress

U = TypeVar("U")
R = TypeVar("R")

Sender = Callable[[Iterable[Sequence[U]]], Iterator[tuple[int, bytes]]]
"""What a task does that shuffles: from runs of units to rows of bytes, each with the number of its partition."""

MakeSender = Callable[[Callable[[int], None]], Sender[U]]
"""What gives it to every sending task; it is given a function that counts the bytes done."""

Weighed = Sequence[tuple[int, U]]
"""Units, each with the bytes that it is worth."""


class Shuffled(Protocol):
    """Rows on their way to their partitions. They are sent when the first partition is asked for, and once only."""

    def read(self, partition: int, work: Callable[[Iterable[bytes]], R]) -> R:
        """What `work` makes of the rows of one partition, which come in no order."""

    def write(
        self, sizes: Mapping[int, int], work: Callable[[int, Iterable[bytes]], Iterator[R]], progress: Progress
    ) -> list[R]:
        """What `work(partition, rows)` gives for each partition that has a size in bytes, in no order."""


class Tasks(Protocol):
    """Does work in tasks. A final error is returned by a task, not raised in it: raised, it would be tried again."""

    @property
    def cores(self) -> int:
        """How many tasks are worth having at once."""

    def run(
        self, work: Callable[[U], R], units: Weighed[U], progress: Progress, *, threads_will_do: bool = False
    ) -> list[R]:
        """`work(unit)` for every unit; the results in no order.

        `threads_will_do`: nearly all of it is done outside of Python, as the copying of local files is, so that threads
        of one process get on with it as well as processes do. Raises the first final error that a unit met, or
        `StoreError` where the work was given up.
        """

    def shuffle(self, make_sender: MakeSender[U], units: Weighed[U], partitions: int, progress: Progress) -> Shuffled:
        """Rows from every unit to `partitions` partitions."""
