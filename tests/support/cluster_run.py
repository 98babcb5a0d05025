"""A run on a cluster that is not there: Spark's scheduler as a loop over events, with what real tasks have cost.

A driver starts one task after the other on executors whose cores are free. Some executors are slow, some are lost: the
tasks that run there are done again, and so is what they had shuffled in this stage; others come for them. A stage
begins when all tasks of the one before it have ended.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from rescale.insight.cluster import Cluster
from rescale.insight.durations import LOCAL_DISK, S3_CONNECTION

SLOW, SLOWER = 0.01, 3.0
"""One executor in a hundred takes three times as long for everything."""
LOST_PER_HOUR = 0.05
"""Probability that an executor is lost within an hour."""
SECONDS_TO_START = 60.0


@dataclass(frozen=True)
class SimulatedStage:
    """Tasks by their bytes, each of which passes to or from S3 and the executor's disk so many times.

    `costs` are (bytes, CPU seconds) of tasks that have run. What was `shuffled` is lost with its executor. S3 answers
    what is asked for `s3` bytes a second, of all tasks together.
    """

    tasks: Sequence[int]
    costs: Sequence[tuple[int, float]]
    passes: float
    s3: float
    disk: float = 0
    shuffled: bool = False


class SimulatedCluster:
    """`lost` counts executors, `again` the tasks that were done once more."""

    def __init__(self, cluster: Cluster, random: Random, tasks_a_second: float) -> None:
        self.lost = self.again = 0
        self._cluster = cluster
        self._random = random
        self._tasks_a_second = tasks_a_second
        self._slow = {i for i in range(cluster.executors) if random.random() < SLOW}
        self._dies = [self._life(0) for _ in range(cluster.executors)]

    def run(self, stages: Sequence[SimulatedStage]) -> float:
        """Seconds."""
        now = 0.0
        for stage in stages:
            now = self._stage(stage, now)
        return now

    def _life(self, now: float) -> float:
        """When an executor dies that starts now."""
        return now + self._random.expovariate(LOST_PER_HOUR / 3600)

    def _stage(self, stage: SimulatedStage, start: float) -> float:
        """When its last task has ended."""
        free = [(start, i) for i in range(self._cluster.executors) for _ in range(self._cluster.cores)]
        waiting, done = list(reversed(stage.tasks)), [0] * self._cluster.executors
        driver = end = answered = start
        while waiting:
            size = waiting.pop()
            at, executor = heapq.heappop(free)
            while at > self._dies[executor]:  # another one has come for it
                at = max(at, self._lose(executor))
                waiting += self._shuffled_again(stage, done, executor, size)
            driver = max(driver, at) + 1 / self._tasks_a_second
            answered = max(answered, driver) + size / stage.s3
            ends = max(answered, driver + self._seconds(stage, size, executor))
            if ends > self._dies[executor]:
                waiting.append(size)
                self.again += 1
                heapq.heappush(free, (self._dies[executor] + SECONDS_TO_START, executor))
                continue
            done[executor] += 1
            end = max(end, ends)
            heapq.heappush(free, (ends, executor))
        return end

    def _lose(self, executor: int) -> float:
        """When the one is there that comes for it."""
        self.lost += 1
        started = self._dies[executor] + SECONDS_TO_START
        self._dies[executor] = self._life(started)
        return started

    def _shuffled_again(self, stage: SimulatedStage, done: list[int], executor: int, size: int) -> list[int]:
        again, done[executor] = (done[executor] if stage.shuffled else 0), 0
        self.again += again
        return [size] * again

    def _seconds(self, stage: SimulatedStage, size: int, executor: int) -> float:
        of, spent = self._random.choice(stage.costs)
        connection = min(S3_CONNECTION, self._cluster.bandwidth / self._cluster.cores)
        disk = LOCAL_DISK / self._cluster.cores
        seconds = size * (spent / of + stage.passes / connection + stage.disk / disk)
        return seconds * (SLOWER if executor in self._slow else 1)
