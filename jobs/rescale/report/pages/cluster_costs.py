"""A cluster on paper, for people: a table of estimates, and what does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from rescale.insight.cluster_estimate import Need, OnPaper
from rescale.report.page import Block, Section, paragraph, paragraphs, table
from rescale.report.units import counted, duration, human_bytes

_WHAT = {
    Need.SCRATCH: "of scratch space on each executor, through whose disk records are shuffled",
    Need.DRIVER_MEMORY: "of memory for the driver, which knows every file and task",
    Need.WORKER_MEMORY: "of memory beside the heap for each core, which holds parts of large files",
    Need.OBJECT: "in one object, for the fullest new subtask of an operator",
}
_INSTEAD = {
    Need.SCRATCH: "give each more, or have more executors",
    Need.DRIVER_MEMORY: "give its pod more",
    Need.WORKER_MEMORY: "give executors more, or take a greater parallelism",
    Need.OBJECT: "take a greater parallelism",
}


def cluster_document(found: OnPaper | None) -> dict[str, Any] | None:
    """All of it as JSON values."""
    document: dict[str, Any] | None = msgspec.json.decode(msgspec.json.encode(found))
    return document


def cluster_blocks(document: dict[str, Any] | None) -> list[Block]:
    """Of a `cluster_document`; nothing where nobody said what the cluster is."""
    if document is None:
        return []
    cluster, asked = document["cluster"], document["asked"]
    title = (
        f"On paper: {counted(cluster['executors'], 'executor')} of {counted(cluster['cores'], 'core')} and "
        f"{human_bytes(cluster['bandwidth'])}/s"
    )
    estimates = table(
        ("state", "time", "what binds", "shuffled", "scratch", "writes to S3", "reads", "price", "driver"),
        [_row(estimate) for estimate in (asked, *document["larger"])],
    )
    stages = table(
        ("stage", "tasks", "time", "what binds"),
        [
            (stage["name"], f"{stage['tasks']:,}", f"about {duration(stage['seconds'])}", stage["limit"])
            for stage in asked["stages"]
        ],
    )
    note = (
        "Shuffled bytes and scratch space are of each executor, the last column is the driver's memory. These are "
        "estimates from measured rates and from what Amazon says of S3; the price is that of the requests."
    )
    larger = [line for estimate in document["larger"] for line in _misfits(estimate)]
    return [Section(title, (estimates, stages, *paragraphs(larger), paragraph(note)))]


def cluster_warnings(document: dict[str, Any] | None) -> list[str]:
    """What does not fit of the state at hand."""
    return list(_misfits(document["asked"])) if document is not None else []


def _row(estimate: dict[str, Any]) -> tuple[str, ...]:
    requests = estimate["requests"]
    return (
        human_bytes(estimate["bytes"]),
        f"about {duration(estimate['seconds'])}",
        estimate["limit"],
        human_bytes(estimate["shuffle"]),
        human_bytes(estimate["scratch"]),
        f"{requests['writes']:,}",
        f"{requests['reads']:,}",
        f"${estimate['dollars']:,.2f}",
        human_bytes(estimate["driver_memory"]),
    )


def _misfits(estimate: dict[str, Any]) -> Iterator[str]:
    for name, needed, has in estimate["misfits"]:
        need = Need(name)
        yield (
            f"{human_bytes(estimate['bytes'])} would not fit on this cluster: needed are {human_bytes(needed)} "
            f"{_WHAT[need]}, and there are {human_bytes(has)}; {_INSTEAD[need]}"
        )
