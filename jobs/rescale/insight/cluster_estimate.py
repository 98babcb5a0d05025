"""What a run would take on a cluster: time, shuffle, requests and their price, scratch space, the driver's memory.

Rates are those of `durations`, so all this tells minutes from hours, and what fits from what does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from rescale.insight.cluster import Cluster
from rescale.insight.durations import PROCESS_SECONDS
from rescale.insight.stages import EstimatedRequests, EstimatedStage, part_size, stages, worth
from rescale.insight.workload import Workload, workload_of
from rescale.planning.task_sizes import MOST_UNITS
from rescale.planning.values.plan import Plan

SIZES = (10**12, 10**13, 10**14)
"""Bytes of states that are estimated beside the one at hand."""

START_SECONDS = 30.0
"""Until the executors of a step have come, with their image on the node."""

STEPS = 3
"""Of a run, each with executors of its own."""

STARTS_LIMIT = "the start of executors, once for each step"

LARGEST_OBJECT = 5 << 40
"""Bytes of an object in Amazon's S3."""

DRIVER_BASE = 900_000_000
"""Bytes of Python with all that is imported, and of the JVM with its heap, for a little state."""

EACH_FILE, EACH_RANGE, EACH_UNIT, EACH_PART, EACH_TASK = 30_000, 1_200, 500, 60, 10_000
"""Bytes in the driver for a file (its handles, headers, and what is compared of it), a write range, a unit to be
copied, a part's receipt, and what Spark's scheduler keeps of a task."""

PARTS_IN_MEMORY = 8
"""Of each core while state is copied: four at once, each in its pieces and whole."""

WORKER_MEMORY = 640 << 20
"""Bytes beside the heap for each core (`executors.memoryOverhead`)."""


class Need(StrEnum):
    """What may be too small."""

    SCRATCH = "scratch"
    DRIVER_MEMORY = "driver's memory"
    WORKER_MEMORY = "worker's memory"
    OBJECT = "object"


class Misfit(NamedTuple):
    """Bytes that are needed, and that there are."""

    need: Need
    needed: int
    has: int


@dataclass(frozen=True)
class ClusterEstimate:
    """For a state of `bytes`. `dollars` are for the requests alone; sizes are in bytes, of each executor.

    `limit` is what binds the stage that takes longest, or that all stages together take no longer than the starts
    before them; `misfits` are what does not fit.
    """

    bytes: int
    seconds: float
    limit: str
    stages: tuple[EstimatedStage, ...]
    shuffle: int
    scratch: int
    requests: EstimatedRequests
    dollars: float
    driver_memory: int
    misfits: tuple[Misfit, ...]


@dataclass(frozen=True)
class OnPaper:
    """The state at hand, and the same job with more of it."""

    cluster: Cluster
    asked: ClusterEstimate
    larger: tuple[ClusterEstimate, ...]


def on_paper(plan: Plan, cluster: Cluster) -> OnPaper:
    work = workload_of(plan)
    larger = tuple(estimate(work.of_size(size), cluster) for size in SIZES if work.bytes)
    return OnPaper(cluster, estimate(work, cluster), larger)


def estimate(work: Workload, cluster: Cluster) -> ClusterEstimate:
    cluster = worth(cluster, work.bytes)
    found = stages(work, cluster)
    working, starting = sum(stage.seconds for stage in found), STEPS * (PROCESS_SECONDS + START_SECONDS)
    longest = max(found, key=lambda stage: stage.seconds, default=None)
    rekeyed = sum(one.bytes for one in work.rekeyed)
    writes = sum(stage.requests.writes for stage in found) + 3 * work.new_files
    reads = sum(stage.requests.reads for stage in found) + 3 * (work.source_files + work.new_files)
    largest_write = max((stage.most_bytes for stage in found if stage.shuffled), default=0)
    scratch = -(-rekeyed // cluster.executors) + cluster.cores * largest_write
    driver = _driver_memory(work, found)
    prices = cluster.prices
    return ClusterEstimate(
        bytes=work.bytes,
        seconds=working + starting,
        limit=longest.limit if longest is not None and working > starting else STARTS_LIMIT,
        stages=found,
        shuffle=sum(stage.shuffled for stage in found) // cluster.executors,
        scratch=scratch,
        requests=EstimatedRequests(writes, reads),
        dollars=(writes * prices.writes + reads * prices.reads) / 1000,
        driver_memory=driver,
        misfits=tuple(_misfits(work, cluster, scratch, driver)),
    )


def _driver_memory(work: Workload, found: tuple[EstimatedStage, ...]) -> int:
    parts = work.bytes // part_size(work)
    copied = min(work.copied // part_size(work), MOST_UNITS)
    ranges = sum(max(one.new_pieces, 1) for one in work.rekeyed)
    tasks = max((stage.tasks for stage in found), default=0)
    files = EACH_FILE * (work.source_files + work.new_files)
    return DRIVER_BASE + files + EACH_RANGE * ranges + EACH_UNIT * copied + EACH_PART * parts + EACH_TASK * tasks


def _misfits(work: Workload, cluster: Cluster, scratch: int, driver: int) -> Iterator[Misfit]:
    held = PARTS_IN_MEMORY * part_size(work)
    for need, needed, has in (
        (Need.SCRATCH, scratch, cluster.scratch),
        (Need.DRIVER_MEMORY, driver, cluster.driver_memory),
        (Need.OBJECT, work.largest_file, LARGEST_OBJECT),
        (Need.WORKER_MEMORY, held, WORKER_MEMORY),
    ):
        if has is not None and needed > has:
            yield Misfit(need, needed, has)
