"""The stages of a run on a cluster: how many tasks each has, how long it takes, and which limit binds.

A stage takes as long as the scarcest of what it needs: cores, which read, work and write one behind the other; the
network of the executors; their disks, which hold what is shuffled; its largest task, for which there is only one core;
the driver, which starts one task after the other; and the requests that S3 answers for a prefix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rescale.insight.cluster import Cluster
from rescale.insight.durations import LOCAL_DISK, S3_CONNECTION, WHOLE_KEY_GROUPS
from rescale.insight.workload import RekeyedWork, Workload
from rescale.planning.task_sizes import (
    MOST_PARTITIONS,
    MOST_SLICES,
    RANGE_SIZE,
    SLICE_BYTES,
    UNIT_SIZE,
    part_size_for,
)
from rescale.storage.s3.request_size import request_size

TASKS_A_SECOND = 300
"""That a driver of ours starts and hears the end of, with two cores busy beside it (`benchmarks/many_tasks.py`)."""

TASKS_PER_CORE = 2
"""Of those who write (`plan_write_ranges`)."""

WRITES_A_SECOND, READS_A_SECOND = 3500, 5500
"""Requests that S3 answers for a prefix (Best practices design patterns: optimizing Amazon S3 performance)."""

LAST_TASKS = 2
"""So many times as long as a task takes there are cores without one at the end, while others work on executors that are
slow."""

_SORTING = 0.45
"""Of the time that a record takes: it is read, hashed, sorted and sent; the rest is fetched, framed and written."""


@dataclass(frozen=True)
class EstimatedRequests:
    writes: int
    reads: int


@dataclass(frozen=True)
class EstimatedStage:
    """`limit` names what binds; `most_bytes` are those of its largest task. `shuffled` bytes pass between executors."""

    name: str
    tasks: int
    bytes: int
    most_bytes: int
    seconds: float
    limit: str
    requests: EstimatedRequests
    shuffled: int = 0


@dataclass(frozen=True)
class _Work:
    """Of a stage, for each of its bytes: CPU seconds, times that it passes to or from S3, the network and the disk."""

    name: str
    tasks: int
    bytes: int
    most_bytes: int
    cpu: float
    passes: float
    network: float
    disk: float
    requests: EstimatedRequests
    shuffled: int = 0
    prefixes: int = 1


def stages(work: Workload, cluster: Cluster) -> tuple[EstimatedStage, ...]:
    """In order; those without bytes are left out."""
    used = worth(cluster, work.bytes)
    return tuple(_timed(one, used) for one in _works(work, used) if one.bytes)


def worth(cluster: Cluster, size: int) -> Cluster:
    """What of it is asked for to move so many bytes (`executors_for`)."""
    slots = min(cluster.slots, max(1, -(-size // SLICE_BYTES)))
    executors = -(-slots // cluster.cores)
    return replace(cluster, executors=executors, cores=-(-slots // executors))


def part_size(work: Workload) -> int:
    """Of the parts of files; no file has more than half as many as S3 takes."""
    return max(part_size_for(work.bytes, work.part_size), -(-work.largest_file // 5000))


def read_tasks(one: RekeyedWork, cluster: Cluster) -> int:
    """As `read_units` and `slices_of` make them, about."""
    unit = max(one.bytes // one.pieces, min(UNIT_SIZE, one.bytes))
    return max(1, one.bytes // max(unit, _slice(one.bytes, cluster)))


def write_tasks(one: RekeyedWork, cluster: Cluster) -> int:
    """As `plan_write_ranges` makes them, about."""
    some = max(min(RANGE_SIZE, one.bytes // (TASKS_PER_CORE * cluster.slots)), one.bytes // MOST_PARTITIONS, 1)
    return max(1, one.bytes // max(some, one.bytes // one.new_pieces))


def _slice(size: int, cluster: Cluster) -> int:
    return max(1, min(max(SLICE_BYTES, size // MOST_SLICES), size // cluster.slots))


def _works(work: Workload, cluster: Cluster) -> Iterator[_Work]:
    part = part_size(work)
    for name, size in (("copy key groups", work.copied), ("deal operator state", work.elements)):
        unit = max(min(part, size), _slice(size, cluster))
        requests = EstimatedRequests(_parts(size, part), _parts(size, part))
        cpu = 1 / WHOLE_KEY_GROUPS.move
        yield _Work(name, -(-size // max(1, unit)), size, min(size, unit), cpu, 2, 1, 0, requests)
    across = 1 - 1 / cluster.executors
    total = sum(one.bytes for one in work.rekeyed)
    if total:
        read = sum(read_tasks(one, cluster) for one in work.rekeyed)
        cpu = sum(one.bytes / one.rates.move for one in work.rekeyed) / total
        largest = max(max(one.largest, one.bytes // read_tasks(one, cluster)) for one in work.rekeyed)
        reading = EstimatedRequests(0, sum(_reads(one.bytes, one.bytes // one.pieces) for one in work.rekeyed))
        yield _Work("read and sort records", read, total, largest, cpu * _SORTING, 1, 1, 1, reading)
        written = sum(write_tasks(one, cluster) for one in work.rekeyed)
        largest = max(max(one.new_largest, one.bytes // write_tasks(one, cluster)) for one in work.rekeyed)
        writing = EstimatedRequests(_parts(total, part), 0)
        shuffled = int(total * across)
        cpu *= 1 - _SORTING
        yield _Work("write records", written, total, largest, cpu, 1, 1 + across, 1, writing, shuffled)
    both = work.bytes - total
    compared = [(both, WHOLE_KEY_GROUPS.compare), *((one.bytes, one.rates.compare) for one in work.rekeyed)]
    size = work.bytes
    if size:
        tasks = max(1, -(-2 * size // max(_slice(2 * size, cluster), 1)))
        largest = max([size // tasks, *(max(one.largest, one.new_largest) for one in work.rekeyed)])
        cpu = sum(part / rate for part, rate in compared) / size
        reads = _reads(both, min(UNIT_SIZE, both)) * 2
        reads += sum(
            _reads(n.bytes, n.bytes // n.pieces) + _reads(n.bytes, n.bytes // n.new_pieces) for n in work.rekeyed
        )
        yield _Work(
            "compare source and result", tasks, size, largest, cpu, 2, 2, 0, EstimatedRequests(0, reads), prefixes=2
        )


def _timed(work: _Work, cluster: Cluster) -> EstimatedStage:
    each = work.cpu + work.passes / S3_CONNECTION
    last = LAST_TASKS * work.bytes / work.tasks * each
    used = min(cluster.executors, work.tasks)
    limits: Mapping[str, float] = {
        "cores": work.bytes / cluster.slots * each + last,
        "the executors' network": work.bytes * work.network / (used * cluster.bandwidth),
        "the executors' disks": work.bytes * work.disk / (used * LOCAL_DISK),
        "the largest key group, which one core works through": work.most_bytes * each + last,
        "the driver, which starts task after task": work.tasks / TASKS_A_SECOND,
        "requests that S3 answers for a prefix": max(
            work.requests.writes / WRITES_A_SECOND, work.requests.reads / READS_A_SECOND / work.prefixes
        ),
    }
    limit = max(limits, key=lambda name: limits[name])
    return EstimatedStage(
        work.name, work.tasks, work.bytes, work.most_bytes, limits[limit], limit, work.requests, work.shuffled
    )


def _reads(size: int, piece: int) -> int:
    """Of bytes in pieces that lie end to end, or of units of them."""
    return _parts(size, request_size(max(piece, min(UNIT_SIZE, size))))


def _parts(size: int, each: int) -> int:
    return -(-size // each)
