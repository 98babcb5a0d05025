"""Choice of where work is done: little of it in this process; more in processes of this machine, or by Spark.

Work is little (`little_work`) if a loop does it in the time that the others take to start, with the memory of one task.
With a local master (`local[N]`), more work is done by N processes of our own; any other master is Spark's, which then
starts once, and does all work from there on. Work that threads do as fast as processes starts none on this machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from rescale.execution.progress import Progress, say_compiling
from rescale.execution.tasks.in_process import Loop
from rescale.execution.tasks.processes import process_tasks
from rescale.execution.tasks.protocol import MakeSender, Shuffled, Tasks, Weighed
from rescale.flink.compiling import tell_once
from rescale.options.spark_master import local_master
from rescale.planning.little_work import fits_in_process

_AT_ONCE = 4
"""Units that are done at the same time in this process: small ones mostly wait for the store."""

U = TypeVar("U")
R = TypeVar("R")


@contextmanager
def step_tasks(
    name: str, master: str | None, work: int | None = None, *, of_the_driver: bool = False
) -> Iterator[TasksOnDemand]:
    """Provide tasks inside the block; Spark, if it starts, has executors for `work` bytes (`spark_context`).

    Little work is done in this process if the master is local, or if the work is `of_the_driver`. Otherwise keys may be
    hashed by a function that is only installed on the executors.
    """
    tell_once(say_compiling)
    local = local_master(master)
    with ExitStack() as ending:

        def start() -> Tasks:
            if local is not None:
                return ending.enter_context(process_tasks(local.cores))
            from rescale.execution.tasks.spark.spark_tasks import spark_tasks  # importing takes a third of a second

            print(f"{name}: Spark starts", file=sys.stderr, flush=True)
            return ending.enter_context(spark_tasks(name, master, work))

        yield TasksOnDemand(start, of_the_driver or local is not None, local.cores if local else None)


@dataclass
class TasksOnDemand:
    """Tasks that start processes or Spark when needed; `known_cores` is None if only Spark itself knows its cores.

    `little_here` says whether little work is done in this process.
    """

    start: Callable[[], Tasks]
    little_here: bool
    known_cores: int | None
    _others: Tasks | None = field(default=None, init=False)

    @property
    def cores(self) -> int:
        if self._others is None and self.known_cores is not None:
            return self.known_cores
        return self._started().cores

    def begin(self) -> None:
        """Start processes, or Spark, before there is work for them."""
        self._started()

    def run(
        self, work: Callable[[U], R], units: Weighed[U], progress: Progress, *, threads_will_do: bool = False
    ) -> list[R]:
        return self._for(units, threads_will_do=threads_will_do).run(work, units, progress)

    def shuffle(self, make_sender: MakeSender[U], units: Weighed[U], partitions: int, progress: Progress) -> Shuffled:
        return self._for(units).shuffle(make_sender, units, partitions, progress)

    def _for(self, units: Weighed[object], *, threads_will_do: bool = False) -> Tasks:
        in_threads = threads_will_do and self.known_cores is not None
        if not units or (self._others is None and (in_threads or (self.little_here and fits_in_process(units)))):
            cores = self.known_cores or 1
            return Loop(cores, at_once=cores if in_threads else _AT_ONCE)
        return self._started()

    def _started(self) -> Tasks:
        if self._others is None:
            self._others = self.start()
        return self._others
