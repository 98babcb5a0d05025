"""Estimates a run on a cluster: time, shuffled bytes, requests and their price, scratch space, the driver's memory.

The rates are those of `durations`. The estimate is precise enough to tell minutes from hours, and to show which
resource is too small.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from rescale.insight.cluster import Cluster
from rescale.insight.durations import PROCESS_START_SECONDS
from rescale.insight.stages import EstimatedRequests, EstimatedStage, part_size, stages, used_part
from rescale.insight.workload import Workload, workload_of
from rescale.plan.plan import Plan
from rescale.planning.task_sizes import MOST_UNITS

EXECUTORS_START_SECONDS = 30.0
"""Seconds until the executors of a step have started, with their image already on the node."""

STEP_COUNT = 3
"""Number of steps of a run, each with its own executors."""

EXECUTORS_START_LIMIT = "the start of executors, once for each step"

LARGEST_OBJECT_BYTES = 5 << 40
"""Largest object of many S3 stores, in bytes. Amazon S3 takes larger ones: 10,000 parts of 5 GiB."""

DRIVER_BASE_BYTES = 900_000_000
"""Memory of the driver for a small state, in bytes: Python with its imports, and the JVM with its heap."""

BYTES_PER_FILE, BYTES_PER_RANGE, BYTES_PER_UNIT, BYTES_PER_PART, BYTES_PER_TASK = 30_000, 1_200, 500, 60, 10_000
"""Memory of the driver, in bytes, for each file, write range, unit to copy, part of a file, and task.

The driver keeps the handles, headers and comparison of each file, a receipt for each part, and an entry for each task
in Spark's scheduler.
"""

DOLLARS_PER_WRITE, DOLLARS_PER_READ = 0.005 / 1000, 0.0004 / 1000
"""Price in dollars of a request that writes or lists, and of one that reads: S3 Standard in us-east-1
(https://aws.amazon.com/s3/pricing, Requests & data retrievals)."""

PARTS_IN_MEMORY = 8
"""Number of parts in the memory of a core that copies: four as the chunks that were read, and the same four joined."""

MEMORY_BYTES_PER_CORE = 640 << 20
"""Memory of an executor for each core in addition to the heap, in bytes (`executors.memoryOverhead`)."""


class Need(StrEnum):
    """A resource that may be too small."""

    SCRATCH = "scratch"
    DRIVER_MEMORY = "driver's memory"
    WORKER_MEMORY = "worker's memory"
    OBJECT = "object"


class Shortage(NamedTuple):
    """A resource that is too small: bytes needed, and bytes available."""

    need: Need
    needed: int
    available: int


@dataclass(frozen=True)
class ClusterEstimate:
    """Estimate of a run on a state of `bytes`.

    `shuffle` and `scratch` are bytes of each executor, `driver_memory` is in bytes, and `dollars` pay for the requests
    alone. `limit` names what limits the longest stage, or is `EXECUTORS_START_LIMIT` if starting executors takes longer
    than all stages.
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
    misfits: tuple[Shortage, ...]


@dataclass(frozen=True)
class ClusterReport:
    """A cluster, and the estimate of a plan's run on it."""

    cluster: Cluster
    asked: ClusterEstimate


def cluster_report(plan: Plan, cluster: Cluster) -> ClusterReport:
    return ClusterReport(cluster, estimate(workload_of(plan), cluster))


def estimate(work: Workload, cluster: Cluster) -> ClusterEstimate:
    """Return the estimate of a run with this work, on no more executors than the work keeps busy."""
    cluster = used_part(cluster, work.bytes)
    run_stages = stages(work, cluster)
    work_seconds, start_seconds = (
        sum(stage.seconds for stage in run_stages),
        STEP_COUNT * (PROCESS_START_SECONDS + EXECUTORS_START_SECONDS),
    )
    longest_stage = max(run_stages, key=lambda stage: stage.seconds, default=None)
    rekeyed_bytes = sum(records.bytes for records in work.rekeyed)
    write_count = sum(stage.requests.writes for stage in run_stages) + 3 * work.new_file_count
    read_count = sum(stage.requests.reads for stage in run_stages) + 3 * (work.source_file_count + work.new_file_count)
    largest_write_bytes = max((stage.most_bytes for stage in run_stages if stage.shuffled), default=0)
    scratch_bytes = -(-rekeyed_bytes // cluster.executors) + cluster.cores * largest_write_bytes
    driver_bytes = _driver_bytes(work, run_stages)
    return ClusterEstimate(
        bytes=work.bytes,
        seconds=work_seconds + start_seconds,
        limit=longest_stage.limit
        if longest_stage is not None and work_seconds > start_seconds
        else EXECUTORS_START_LIMIT,
        stages=run_stages,
        shuffle=sum(stage.shuffled for stage in run_stages) // cluster.executors,
        scratch=scratch_bytes,
        requests=EstimatedRequests(write_count, read_count),
        dollars=write_count * DOLLARS_PER_WRITE + read_count * DOLLARS_PER_READ,
        driver_memory=driver_bytes,
        misfits=tuple(_shortages(work, cluster, scratch_bytes, driver_bytes)),
    )


def _driver_bytes(work: Workload, run_stages: tuple[EstimatedStage, ...]) -> int:
    part_count = work.bytes // part_size(work)
    unit_count = min(work.copied_bytes // part_size(work), MOST_UNITS)
    range_count = sum(max(records.new_piece_count, 1) for records in work.rekeyed)
    task_count = max((stage.tasks for stage in run_stages), default=0)
    bytes_of_files = BYTES_PER_FILE * (work.source_file_count + work.new_file_count)
    return (
        DRIVER_BASE_BYTES
        + bytes_of_files
        + BYTES_PER_RANGE * range_count
        + BYTES_PER_UNIT * unit_count
        + BYTES_PER_PART * part_count
        + BYTES_PER_TASK * task_count
    )


def _shortages(work: Workload, cluster: Cluster, scratch_bytes: int, driver_bytes: int) -> Iterator[Shortage]:
    bytes_of_parts = PARTS_IN_MEMORY * part_size(work)
    for need, needed_bytes, available_bytes in (
        (Need.SCRATCH, scratch_bytes, cluster.scratch),
        (Need.DRIVER_MEMORY, driver_bytes, cluster.driver_memory),
        (Need.OBJECT, work.largest_file_bytes, LARGEST_OBJECT_BYTES),
        (Need.WORKER_MEMORY, bytes_of_parts, MEMORY_BYTES_PER_CORE),
    ):
        if available_bytes is not None and needed_bytes > available_bytes:
            yield Shortage(need, needed_bytes, available_bytes)
