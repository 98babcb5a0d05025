"""Tasks in this process, in a loop or in threads.

They do little work, work for which threads are as fast as processes, and the work of simulations, debuggers and tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from threading import Lock
from typing import IO, TypeVar
from weakref import finalize

from rescale.execution.progress import Progress
from rescale.execution.tasks.protocol import MakeSender, Weighed
from rescale.snapshot.read_counter import counting_read_bytes
from rescale.storage.scratch import scratch_errors, spooled_file

_MOST_BYTES_IN_MEMORY = 64 * 1024 * 1024

T = TypeVar("T")
U = TypeVar("U")
R = TypeVar("R")


@dataclass(frozen=True)
class InProcessTasks:
    """Runs units in this process; callers split work by `cores`.

    With `random`, units run and rows arrive in a random order. Up to `thread_count` units run at once, so that one
    works while another waits for the store.
    """

    cores: int = 2
    random: Random | None = None
    thread_count: int = 1

    def run(self, work: Callable[[U], R], units: Weighed[U], progress: Progress, **_: bool) -> list[R]:
        counter = _ProgressCounter(progress)

        def counted_work(weighed_unit: tuple[int, U]) -> R:
            weight, unit = weighed_unit
            with counting_read_bytes(weight, counter.add):
                return work(unit)

        with self._results_in_order(counted_work, self.shuffled(units)) as outcomes:
            results = list(outcomes)
        if units:
            counter.finish()
        return results

    def shuffle(
        self, make_sender: MakeSender[U], units: Weighed[U], partition_count: int, progress: Progress
    ) -> InProcessShuffle:
        counter = _ProgressCounter(progress)
        sender = make_sender(counter.add)

        def send() -> _Rows:
            rows = _Rows(partition_count)

            def send_unit(unit: U) -> None:
                for partition, row in sender([[unit]]):
                    rows.append(partition, row)

            with self._results_in_order(send_unit, [unit for _, unit in self.shuffled(units)]) as sent_units:
                for _ in sent_units:
                    pass
            counter.finish()
            return rows

        return InProcessShuffle(self, send)

    def shuffled(self, items: Iterable[T]) -> Sequence[T]:
        shuffled_items = list(items)
        if self.random is not None:
            self.random.shuffle(shuffled_items)
        return shuffled_items

    @contextmanager
    def _results_in_order(self, work: Callable[[U], R], units: Sequence[U]) -> Iterator[Iterator[R]]:
        """Provide the results of the units in order, inside the block. Its end cancels units that have not begun."""
        if self.thread_count == 1:
            yield map(work, units)
            return
        pool = ThreadPoolExecutor(self.thread_count)
        try:
            yield pool.map(work, units)
        finally:
            pool.shutdown(cancel_futures=True)


class InProcessShuffle:
    """Rows between senders and receivers; `send` makes every unit send its rows."""

    def __init__(self, tasks: InProcessTasks, send: Callable[[], _Rows]) -> None:
        self._tasks = tasks
        self._send = send
        self._rows: _Rows | None = None

    def read(self, partition: int, work: Callable[[Iterable[bytes]], R]) -> R:
        return work(self._rows_of(partition))

    def write(
        self, sizes: Mapping[int, int], work: Callable[[int, Iterable[bytes]], Iterator[R]], progress: Progress
    ) -> list[R]:
        counter = _ProgressCounter(progress)
        results: list[R] = []
        for partition in self._tasks.shuffled(sizes):
            results += work(partition, self._rows_of(partition))
            counter.add(sizes[partition])
        counter.finish()
        return results

    def _rows_of(self, partition: int) -> Iterator[bytes]:
        if self._rows is None:
            self._rows = self._send()
        return map(self._rows.load, self._tasks.shuffled(self._rows.extents[partition]))


class _Rows:
    """Rows by partition, in memory, or in a scratch file if they are large."""

    def __init__(self, partition_count: int) -> None:
        self.extents: list[list[tuple[int, int]]] = [[] for _ in range(partition_count)]
        self._size = 0
        self._append_lock = Lock()
        self._content: IO[bytes] = spooled_file(_MOST_BYTES_IN_MEMORY)
        finalize(self, self._content.close)  # rows are readable as long as this object is referenced

    def append(self, partition: int, row: bytes) -> None:
        with self._append_lock, scratch_errors():
            self.extents[partition].append((self._size, len(row)))
            self._content.seek(self._size)
            self._content.write(row)
            self._size += len(row)

    def load(self, extent: tuple[int, int]) -> bytes:
        self._content.seek(extent[0])
        return self._content.read(extent[1])


class _ProgressCounter:
    """Adds up the bytes done, and reports them as progress."""

    def __init__(self, progress: Progress) -> None:
        self._bytes = 0
        self._progress = progress
        self._add_lock = Lock()

    def add(self, more_bytes: int) -> None:
        with self._add_lock:
            self._bytes += more_bytes
            self._progress.update(self._bytes)

    def finish(self) -> None:
        self._progress.finish(self._bytes)
