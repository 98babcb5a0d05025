"""Estimates the stages of a run on a cluster: how many tasks each has, how long it takes, and what limits it.

A stage takes as long as its scarcest resource needs. The resources are:
* the cores, which read, compute and write in turn;
* the network of the executors;
* the disks of the executors, which hold shuffled records;
* the single core that works on the largest task;
* the driver, which starts tasks one by one;
* S3, which answers a limited number of requests for each prefix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rescale.insight.cluster import Cluster
from rescale.insight.durations import LOCAL_DISK_RATE, S3_CONNECTION_RATE, WHOLE_KEY_GROUP_RATES
from rescale.insight.workload import RekeyedWork, Workload
from rescale.planning.task_sizes import MOST_PARTITIONS, MOST_SLICES, RANGE_SIZE, SLICE_BYTES, UNIT_SIZE, part_size_for
from rescale.storage.s3.request_size import request_size

TASKS_A_SECOND = 300
"""Number of tasks that a driver starts and ends per second, while tasks keep two cores busy
(`benchmarks/many_tasks.py`)."""

TASKS_PER_CORE = 2
"""Number of tasks that write records, for each core (`plan_write_ranges`)."""

WRITES_A_SECOND, READS_A_SECOND = 3500, 5500
"""Requests per second and prefix in S3 (Best practices design patterns: optimizing Amazon S3 performance)."""

LAST_WAIT_FACTOR = 2
"""Time for which cores wait for slow executors at the end of a stage, as a multiple of a task's duration."""

_SORTING_SHARE = 0.45
"""Share of a record's CPU time that reading, hashing, sorting and sending take; the rest is framing and writing."""


@dataclass(frozen=True)
class EstimatedRequests:
    """Numbers of requests to S3: requests that write and requests that read have different prices."""

    writes: int
    reads: int


@dataclass(frozen=True)
class EstimatedStage:
    """A stage of a run, with its estimated duration.

    `most_bytes` are the bytes of the largest task, `shuffled` bytes pass between executors, and `limit` names the
    scarcest resource.
    """

    name: str
    tasks: int
    bytes: int
    most_bytes: int
    seconds: float
    limit: str
    requests: EstimatedRequests
    shuffled: int = 0


@dataclass(frozen=True)
class _UntimedStage:
    """A stage whose duration is not estimated yet.

    `s3_passes`, `network_passes` and `disk_passes` say how often each byte passes to or from S3, the network and the
    disk. `prefix_count` is the number of prefixes in S3 that share the requests to read.
    """

    name: str
    tasks: int
    bytes: int
    most_bytes: int
    cpu_seconds_per_byte: float
    s3_passes: float
    network_passes: float
    disk_passes: float
    requests: EstimatedRequests
    shuffled: int = 0
    prefix_count: int = 1


def stages(work: Workload, cluster: Cluster) -> tuple[EstimatedStage, ...]:
    """Return the estimated stages of a run, in order; stages without bytes are left out."""
    used_cluster = used_part(cluster, work.bytes)
    return tuple(_time_stage(stage, used_cluster) for stage in _untimed_stages(work, used_cluster) if stage.bytes)


def used_part(cluster: Cluster, size: int) -> Cluster:
    """Return the part of the cluster that a run of `size` bytes uses (`executors_for`)."""
    slots = min(cluster.slots, max(1, -(-size // SLICE_BYTES)))
    executors = -(-slots // cluster.cores)
    return replace(cluster, executors=executors, cores=-(-slots // executors))


def part_size(work: Workload) -> int:
    """Return the size of the parts of files, in bytes.

    No file gets more than 5000 parts, half of what S3 allows.
    """
    return max(part_size_for(work.bytes, work.part_size), -(-work.largest_file_bytes // 5000))


def number_of_read_tasks(records: RekeyedWork, cluster: Cluster) -> int:
    """Return an estimate of the number of tasks that read these records (`split_into_read_units`, `slices_of`)."""
    unit_bytes = max(records.bytes // records.piece_count, min(UNIT_SIZE, records.bytes))
    return max(1, records.bytes // max(unit_bytes, _slice_size(records.bytes, cluster)))


def number_of_write_tasks(records: RekeyedWork, cluster: Cluster) -> int:
    """Return an estimate of the number of tasks that write these records (`plan_write_ranges`)."""
    size = records.bytes
    range_size = max(min(RANGE_SIZE, size // (TASKS_PER_CORE * cluster.slots)), size // MOST_PARTITIONS, 1)
    return max(1, size // max(range_size, size // records.new_piece_count))


def _slice_size(size: int, cluster: Cluster) -> int:
    return max(1, min(max(SLICE_BYTES, size // MOST_SLICES), size // cluster.slots))


def _untimed_stages(work: Workload, cluster: Cluster) -> Iterator[_UntimedStage]:
    part_bytes = part_size(work)
    for name, size in (("copy key groups", work.copied_bytes), ("deal operator state", work.operator_bytes)):
        unit_bytes = max(min(part_bytes, size), _slice_size(size, cluster))
        requests = EstimatedRequests(_number_of_parts(size, part_bytes), _number_of_parts(size, part_bytes))
        cpu_seconds_per_byte = 1 / WHOLE_KEY_GROUP_RATES.bytes_moved_per_second
        yield _UntimedStage(
            name, -(-size // max(1, unit_bytes)), size, min(size, unit_bytes), cpu_seconds_per_byte, 2, 1, 0, requests
        )
    remote_share = 1 - 1 / cluster.executors
    rekeyed_bytes = sum(records.bytes for records in work.rekeyed)
    if rekeyed_bytes:
        reading_tasks = sum(number_of_read_tasks(records, cluster) for records in work.rekeyed)
        cpu_seconds_per_byte = (
            sum(records.bytes / records.rates.bytes_moved_per_second for records in work.rekeyed) / rekeyed_bytes
        )
        most_bytes = max(
            max(records.largest_piece_bytes, records.bytes // number_of_read_tasks(records, cluster))
            for records in work.rekeyed
        )
        reading_requests = EstimatedRequests(
            0, sum(_number_of_reads(records.bytes, records.bytes // records.piece_count) for records in work.rekeyed)
        )
        yield _UntimedStage(
            "read and sort records",
            reading_tasks,
            rekeyed_bytes,
            most_bytes,
            cpu_seconds_per_byte * _SORTING_SHARE,
            1,
            1,
            1,
            reading_requests,
        )
        writing_tasks = sum(number_of_write_tasks(records, cluster) for records in work.rekeyed)
        most_bytes = max(
            max(records.largest_new_piece_bytes, records.bytes // number_of_write_tasks(records, cluster))
            for records in work.rekeyed
        )
        writing_requests = EstimatedRequests(_number_of_parts(rekeyed_bytes, part_bytes), 0)
        shuffled_bytes = int(rekeyed_bytes * remote_share)
        cpu_seconds_per_byte *= 1 - _SORTING_SHARE
        yield _UntimedStage(
            "write records",
            writing_tasks,
            rekeyed_bytes,
            most_bytes,
            cpu_seconds_per_byte,
            1,
            1 + remote_share,
            1,
            writing_requests,
            shuffled_bytes,
        )
    other_bytes = work.bytes - rekeyed_bytes
    compared_sizes_and_rates = [
        (other_bytes, WHOLE_KEY_GROUP_RATES.bytes_compared_per_second),
        *((records.bytes, records.rates.bytes_compared_per_second) for records in work.rekeyed),
    ]
    size = work.bytes
    if size:
        task_count = max(1, -(-2 * size // max(_slice_size(2 * size, cluster), 1)))
        most_bytes = max(
            [
                size // task_count,
                *(max(records.largest_piece_bytes, records.largest_new_piece_bytes) for records in work.rekeyed),
            ]
        )
        cpu_seconds_per_byte = sum(compared_bytes / rate for compared_bytes, rate in compared_sizes_and_rates) / size
        read_count = _number_of_reads(other_bytes, min(UNIT_SIZE, other_bytes)) * 2
        read_count += sum(
            _number_of_reads(records.bytes, records.bytes // piece_count)
            for records in work.rekeyed
            for piece_count in (records.piece_count, records.new_piece_count)
        )
        yield _UntimedStage(
            "compare source and result",
            task_count,
            size,
            most_bytes,
            cpu_seconds_per_byte,
            2,
            2,
            0,
            EstimatedRequests(0, read_count),
            prefix_count=2,
        )


def _time_stage(stage: _UntimedStage, cluster: Cluster) -> EstimatedStage:
    seconds_per_byte = stage.cpu_seconds_per_byte + stage.s3_passes / S3_CONNECTION_RATE
    last_wait_seconds = LAST_WAIT_FACTOR * stage.bytes / stage.tasks * seconds_per_byte
    used_executors = min(cluster.executors, stage.tasks)
    seconds_by_limit: Mapping[str, float] = {
        "cores": stage.bytes / cluster.slots * seconds_per_byte + last_wait_seconds,
        "the executors' network": stage.bytes * stage.network_passes / (used_executors * cluster.bandwidth),
        "the executors' disks": stage.bytes * stage.disk_passes / (used_executors * LOCAL_DISK_RATE),
        "the largest key group, which one core works through": stage.most_bytes * seconds_per_byte + last_wait_seconds,
        "the driver, which starts task after task": stage.tasks / TASKS_A_SECOND,
        "S3's rate of requests per prefix": max(
            stage.requests.writes / WRITES_A_SECOND, stage.requests.reads / READS_A_SECOND / stage.prefix_count
        ),
    }
    limit = max(seconds_by_limit, key=lambda name: seconds_by_limit[name])
    return EstimatedStage(
        stage.name,
        stage.tasks,
        stage.bytes,
        stage.most_bytes,
        seconds_by_limit[limit],
        limit,
        stage.requests,
        stage.shuffled,
    )


def _number_of_reads(size: int, piece_size: int) -> int:
    """Return the number of requests that read `size` bytes, which consist of adjacent pieces of `piece_size` bytes."""
    return _number_of_parts(size, request_size(max(piece_size, min(UNIT_SIZE, size))))


def _number_of_parts(size: int, part_size: int) -> int:
    return -(-size // part_size)
