"""Tasks in processes of this machine: units run in slices, and rows go through files."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Generic, TypeVar

from rescale.execution.progress import Progress
from rescale.execution.tasks.file_shuffle import FileShuffle
from rescale.execution.tasks.protocol import MakeSender, Weighed
from rescale.execution.tasks.slices import SLICES_PER_CORE, Outcome, results_of, slices_of, work_through
from rescale.execution.tasks.task_directories import make_task_directories
from rescale.execution.tasks.worker_pool import WorkerPool
from rescale.storage.scratch import ScratchKind, scratch_directories

U = TypeVar("U")
R = TypeVar("R")


@contextmanager
def process_tasks(cores: int) -> Iterator[ProcessTasks]:
    """Provide tasks inside the block, in up to `cores` worker processes.

    The workers start when there is work for them, with the environment that this process has now. When the block ends,
    or SIGTERM ends this process, the workers and their scratch directories are removed.
    """
    with ExitStack() as cleanup:
        directories = make_task_directories(scratch_directories(), ScratchKind.TASKS, cleanup)
        pool = WorkerPool(cores, {**os.environ, "SPARK_LOCAL_DIRS": ",".join(directories)})
        cleanup.callback(pool.close)
        with _ended_by_sigterm(cleanup):
            pool.start()
            yield ProcessTasks(pool)


@dataclass(frozen=True)
class ProcessTasks:
    """Tasks of a pool of workers."""

    pool: WorkerPool

    @property
    def cores(self) -> int:
        return self.pool.size

    def run(self, work: Callable[[U], R], units: Weighed[U], progress: Progress, **_: bool) -> list[R]:
        if not units:
            return []
        outcomes_by_slice: list[list[Outcome[R]] | None] = self.pool.run(
            _SliceTask(work), slices_of(units, self.cores * SLICES_PER_CORE), progress, stops_at=_has_failed
        )
        return results_of([outcome for outcomes in outcomes_by_slice for outcome in outcomes or ()])

    def shuffle(
        self, make_sender: MakeSender[U], units: Weighed[U], partition_count: int, progress: Progress
    ) -> FileShuffle:
        return FileShuffle(self.pool, make_sender, units, partition_count, progress)


@dataclass(frozen=True)
class _SliceTask(Generic[U, R]):
    """Runs a slice of units up to the first final error."""

    work: Callable[[U], R]

    def __call__(self, units: Weighed[U], report_bytes: Callable[[int], None]) -> list[Outcome[R]]:
        return list(work_through(self.work, units, report_bytes))


def _has_failed(outcomes: list[Outcome[Any]]) -> bool:
    """Return whether a slice ended with a final error, so that no other slice need begin."""
    return bool(outcomes) and outcomes[-1][1] is not None


@contextmanager
def _ended_by_sigterm(cleanup: ExitStack) -> Iterator[None]:
    """Close `cleanup` if SIGTERM ends this process inside the block.

    Does nothing outside the main thread, or if SIGTERM is handled or ignored already.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(signal_number: int, _: FrameType | None) -> None:
        cleanup.close()
        signal.signal(signal_number, signal.SIG_DFL)
        os.kill(os.getpid(), signal_number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
