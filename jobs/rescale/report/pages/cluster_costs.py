"""Section about the estimated costs of a run on a cluster, and warnings about resources that are too small."""

from __future__ import annotations

from collections.abc import Iterator

from rescale.insight.cluster_estimate import ClusterEstimate, ClusterReport, Need
from rescale.report.page import Block, Section, paragraph, table
from rescale.text.units import counted, duration, human_bytes

_PURPOSE_BY_NEED = {
    Need.SCRATCH: "of scratch space on the disk of each executor, for shuffled records",
    Need.DRIVER_MEMORY: "of memory for the driver, which keeps a list of all files and tasks",
    Need.WORKER_MEMORY: "of memory outside the heap for each core, which holds parts of large files",
    Need.OBJECT: "in one object, for the fullest new subtask of an operator",
}
_REMEDY_BY_NEED = {
    Need.SCRATCH: "give each executor more, or use more executors",
    Need.DRIVER_MEMORY: "give the driver's pod more memory",
    Need.WORKER_MEMORY: "give executors more memory, or use a larger parallelism",
    Need.OBJECT: "use a larger parallelism",
}


def cluster_blocks(estimate: ClusterReport | None) -> list[Block]:
    """Return the section for an estimate; nothing for None."""
    if estimate is None:
        return []
    cluster, requested_estimate = estimate.cluster, estimate.asked
    title = (
        f"Estimate: {counted(cluster.executors, 'executor')} of {counted(cluster.cores, 'core')} and "
        f"{human_bytes(cluster.bandwidth)}/s"
    )
    estimates_table = table(
        ("state", "time", "limited by", "shuffled", "scratch", "writes to S3", "reads", "price", "driver"),
        [_row(requested_estimate)],
    )
    stages_table = table(
        ("stage", "tasks", "time", "limited by"),
        [
            (stage.name, f"{stage.tasks:,}", f"about {duration(stage.seconds)}", stage.limit)
            for stage in requested_estimate.stages
        ],
    )
    note = (
        "Shuffled bytes and scratch space are for each executor, and the last column is the driver's memory. All "
        "are estimates from measured rates and Amazon's documentation of S3; the price covers only the requests."
    )
    return [Section(title, (estimates_table, stages_table, paragraph(note)))]


def cluster_warnings(estimate: ClusterReport | None) -> list[str]:
    """Return a sentence for each resource that is too small."""
    return list(_misfit_sentences(estimate.asked)) if estimate is not None else []


def _row(estimate: ClusterEstimate) -> tuple[str, ...]:
    requests = estimate.requests
    return (
        human_bytes(estimate.bytes),
        f"about {duration(estimate.seconds)}",
        estimate.limit,
        human_bytes(estimate.shuffle),
        human_bytes(estimate.scratch),
        f"{requests.writes:,}",
        f"{requests.reads:,}",
        f"${estimate.dollars:,.2f}",
        human_bytes(estimate.driver_memory),
    )


def _misfit_sentences(estimate: ClusterEstimate) -> Iterator[str]:
    for need, needed_bytes, available_bytes in estimate.misfits:
        yield (
            f"{human_bytes(estimate.bytes)} of state does not fit on this cluster: it needs "
            f"{human_bytes(needed_bytes)} {_PURPOSE_BY_NEED[need]}, and has {human_bytes(available_bytes)}; "
            f"{_REMEDY_BY_NEED[need]}"
        )
