"""Choice of where work runs: in this process, in worker processes on this machine, or in Spark.

Little work (`little_work`) runs in this process, because it ends before workers would have started. With a local master
(`local[N]`), more work runs in N worker processes, or in threads where these are as fast. With any other master, it
runs in Spark. Once worker processes or Spark have started, they run all further work, however little.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from rescale.execution.progress import Progress, say_compiling
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.execution.tasks.processes import process_tasks
from rescale.execution.tasks.protocol import MakeSender, Shuffle, Tasks, Weighed
from rescale.flink.compiling import listen_once
from rescale.options.spark_master import local_master
from rescale.planning.little_work import fits_in_process

_UNITS_AT_ONCE = 4
"""Number of units that run at the same time in this process: small units mostly wait for the store."""

U = TypeVar("U")
R = TypeVar("R")


@contextmanager
def step_tasks(
    name: str, master: str | None, work_bytes: int | None = None, *, on_driver: bool = False
) -> Iterator[TasksOnDemand]:
    """Provide tasks inside the block. If Spark starts, it has executors for `work_bytes` (`spark_context`).

    Little work runs in this process if the master is local, or if `on_driver` is True. Otherwise the executors run
    it: it may need a key-hash function that is installed only there.
    """
    listen_once(say_compiling)
    local_spec = local_master(master)
    with ExitStack() as cleanup:

        def start() -> Tasks:
            if local_spec is not None:
                return cleanup.enter_context(process_tasks(local_spec.cores))
            from rescale.execution.tasks.spark.spark_tasks import spark_tasks  # importing takes a third of a second

            print(f"{name}: Spark starts", file=sys.stderr, flush=True)
            return cleanup.enter_context(spark_tasks(name, master, work_bytes))

        yield TasksOnDemand(start, on_driver or local_spec is not None, local_spec.cores if local_spec else None)


@dataclass
class TasksOnDemand:
    """Tasks that start processes or Spark when needed; `known_cores` is None if only Spark itself knows its cores.

    `does_little_work` tells whether to run little work in this process.
    """

    start_workers: Callable[[], Tasks]
    does_little_work: bool
    known_cores: int | None
    _workers: Tasks | None = field(default=None, init=False)

    @property
    def cores(self) -> int:
        if self._workers is None and self.known_cores is not None:
            return self.known_cores
        return self._started_workers().cores

    def begin(self) -> None:
        """Start processes, or Spark, before there is work for them."""
        self._started_workers()

    def run(
        self, work: Callable[[U], R], units: Weighed[U], progress: Progress, *, threads_suffice: bool = False
    ) -> list[R]:
        return self._tasks_for(units, threads_suffice=threads_suffice).run(work, units, progress)

    def shuffle(
        self, make_sender: MakeSender[U], units: Weighed[U], partition_count: int, progress: Progress
    ) -> Shuffle:
        return self._tasks_for(units).shuffle(make_sender, units, partition_count, progress)

    def _tasks_for(self, units: Weighed[object], *, threads_suffice: bool = False) -> Tasks:
        in_threads = threads_suffice and self.known_cores is not None
        if not units or (self._workers is None and (in_threads or (self.does_little_work and fits_in_process(units)))):
            cores = self.known_cores or 1
            return InProcessTasks(cores, thread_count=cores if in_threads else _UNITS_AT_ONCE)
        return self._started_workers()

    def _started_workers(self) -> Tasks:
        if self._workers is None:
            self._workers = self.start_workers()
        return self._workers
