"""The tasks of a step's process: little work is done by the process itself; with more Spark starts, and once.

In the time that a start takes a loop has done what is called little (`little_work`), in no more memory than a task of
Spark's. What threads do as well as processes needs none on this machine, however much it is. Where Spark runs already,
it gets that work, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from rescale.execution.loop import Loop
from rescale.execution.progress import Progress, say_compiling
from rescale.execution.tasks import MakeSender, Shuffled, Tasks, Weighed
from rescale.flink.compiling import tell_once
from rescale.planning.little_work import is_little
from rescale.spark_master import local_master

_AT_ONCE = 4
"""Units under way at once in a loop: small ones are mostly waiting for the store. Each holds at most a part."""

U = TypeVar("U")
R = TypeVar("R")


@contextmanager
def step_tasks(
    name: str, master: str | None, work: int | None = None, *, of_the_driver: bool = False
) -> Iterator[StepTasks]:
    """Tasks as long as the block runs; Spark, if it starts, has executors for `work` bytes (`spark_context`).

    Little work is done in this process if Spark would run on this machine, or where it is `of_the_driver` anyway: else
    keys may hash by a function that is only installed where the executors are.
    """
    tell_once(say_compiling)
    local = local_master(master)
    with ExitStack() as ending:

        def start() -> Tasks:
            from rescale.execution.spark.spark_tasks import spark_tasks  # a third of a second, and seldom needed

            print(f"{name}: Spark starts", file=sys.stderr, flush=True)
            return ending.enter_context(spark_tasks(name, master, work))

        yield StepTasks(start, of_the_driver or local is not None, local.cores if local else None)


@dataclass
class StepTasks:
    """`start` starts Spark; `cores` says how many it would have, None where only Spark itself knows.

    `little_here`: little work does not need it.
    """

    start: Callable[[], Tasks]
    little_here: bool
    known_cores: int | None
    _spark: Tasks | None = field(default=None, init=False)

    @property
    def cores(self) -> int:
        if self._spark is None and self.known_cores is not None:
            return self.known_cores
        return self._started().cores

    def run(
        self, work: Callable[[U], R], units: Weighed[U], progress: Progress, *, threads_will_do: bool = False
    ) -> list[R]:
        return self._for(units, threads_will_do=threads_will_do).run(work, units, progress)

    def shuffle(self, make_sender: MakeSender[U], units: Weighed[U], partitions: int, progress: Progress) -> Shuffled:
        return self._for(units).shuffle(make_sender, units, partitions, progress)

    def _for(self, units: Weighed[object], *, threads_will_do: bool = False) -> Tasks:
        in_threads = threads_will_do and self.known_cores is not None
        if not units or (self._spark is None and (in_threads or (self.little_here and is_little(units)))):
            cores = self.known_cores or 1
            return Loop(cores, at_once=cores if in_threads else _AT_ONCE)
        return self._started()

    def _started(self) -> Tasks:
        if self._spark is None:
            self._spark = self.start()
        return self._spark
