"""Tasks as a plain loop in this process, one unit after the other: for simulations, debuggers and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from rescale.execution.progress import Progress
from rescale.execution.tasks import Sender, Weighed

T = TypeVar("T")
U = TypeVar("U")
R = TypeVar("R")


@dataclass(frozen=True)
class Loop:
    """`cores` is what it says of itself, for those who cut work by it.

    With an `order` units take their turns by chance, and what they send each other arrives so.
    """

    cores: int = 2
    order: Random | None = None

    def run(self, work: Callable[[U], R], units: Weighed[U], progress: Progress) -> list[R]:
        done = _Done(progress)
        results = []
        for weight, unit in self.shuffled(units):
            results.append(work(unit))
            done.add(weight)
        if units:
            done.finish()
        return results

    def shuffle(
        self,
        make_sender: Callable[[Callable[[int], None]], Sender[U]],
        units: Weighed[U],
        partitions: int,
        progress: Progress,
    ) -> LoopShuffle:
        done = _Done(progress)
        sender = make_sender(done.add)

        def send() -> list[list[bytes]]:
            rows: list[list[bytes]] = [[] for _ in range(partitions)]
            for _, unit in self.shuffled(units):
                for partition, row in sender([[unit]]):
                    rows[partition].append(row)
            done.finish()
            return rows

        return LoopShuffle(self, send)

    def shuffled(self, items: Iterable[T]) -> Sequence[T]:
        listed = list(items)
        if self.order is not None:
            self.order.shuffle(listed)
        return listed


class LoopShuffle:
    """Rows in lists. `send` has every unit send its own."""

    def __init__(self, loop: Loop, send: Callable[[], list[list[bytes]]]) -> None:
        self._loop = loop
        self._send = send
        self._rows: list[list[bytes]] | None = None

    def read(self, partition: int, work: Callable[[Iterable[bytes]], R]) -> R:
        return work(self._of(partition))

    def write(
        self, sizes: Mapping[int, int], work: Callable[[int, Iterable[bytes]], Iterator[R]], progress: Progress
    ) -> list[R]:
        done = _Done(progress)
        results: list[R] = []
        for partition in self._loop.shuffled(sizes):
            results += work(partition, self._of(partition))
            done.add(sizes[partition])
        done.finish()
        return results

    def _of(self, partition: int) -> Sequence[bytes]:
        if self._rows is None:
            self._rows = self._send()
        return self._loop.shuffled(self._rows[partition])


class _Done:
    """The bytes done so far."""

    def __init__(self, progress: Progress) -> None:
        self._bytes = 0
        self._progress = progress

    def add(self, more: int) -> None:
        self._bytes += more
        self._progress.at(self._bytes)

    def finish(self) -> None:
        self._progress.finish(self._bytes)
