"""What a plan says to people: a document as JSON values, and a page with all that is worth a look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rescale.flink.serializers.formulas import KNOWN
from rescale.flink.slot import Slot
from rescale.insight.cluster import Cluster
from rescale.insight.cluster_estimate import on_paper
from rescale.insight.insight import plan_insight
from rescale.insight.shapes import ShapeAdvice
from rescale.planning.values.operator_plan import OperatorPlan
from rescale.planning.values.plan import Plan
from rescale.planning.values.work_class import WorkClass
from rescale.report.page import Block, Listed, Page, Warned, paragraph, paragraphs, table
from rescale.report.pages.cluster_costs import cluster_blocks, cluster_document, cluster_warnings
from rescale.report.pages.declared import declared_lines
from rescale.report.pages.elements import dealt_elements
from rescale.report.pages.insights import insight_blocks, insight_document
from rescale.report.pages.kafka import kafka_document, kafka_tables
from rescale.report.renderers.text import text_of
from rescale.report.shortening import MOST_OPERATORS, MOST_ROWS, first, left_operators, left_out, state_bytes
from rescale.report.units import arrow, counted, human_bytes, when
from rescale.snapshot.given_names import said_of_unused
from rescale.snapshot.kafka.offsets import KafkaOffsets
from rescale.snapshot.model import Operator, Snapshot


def plan_document(
    plan: Plan, snapshot: Snapshot, kafka: Sequence[KafkaOffsets] = (), cluster: Cluster | None = None
) -> dict[str, Any]:
    """Everything but the single byte ranges, which the stored plan holds, and what it means for its `snapshot`.

    `kafka` are the offsets of its Kafka sources; `cluster` is where it would be carried out, if that is known.
    """
    taken = snapshot.taken
    insight = plan_insight(plan, snapshot)
    on_cluster = cluster_document(on_paper(plan, cluster) if cluster is not None else None)
    shapes = {shape.operator_id: shape for shape in insight.shapes}
    parallelism = {operator.operator_id: operator.new_parallelism for operator in plan.operators}
    return {
        "plan": plan.digest,
        "source": plan.source,
        "taken": taken.isoformat(sep=" ", timespec="seconds") if taken else None,
        "target": plan.target,
        "bytes_moved": plan.bytes_moved,
        "operators": [
            _operator(operator, old, shapes.get(operator.operator_id))
            for operator, old in zip(plan.operators, snapshot.operators, strict=True)
        ],
        "kafka": [kafka_document(offsets, parallelism[offsets.operator.operator_id]) for offsets in kafka],
        "surgery": plan.surgery.document(),
        "warnings": [*plan.warnings, *cluster_warnings(on_cluster), *said_of_unused(snapshot.unused_names)],
        "start": plan.start.command,
        "insight": insight_document(insight),
        "cluster": on_cluster,
    }


def plan_text(document: dict[str, Any]) -> str:
    return text_of(plan_page(document))


def plan_page(document: dict[str, Any]) -> Page:
    """Of a `plan_document`."""
    operators = document["operators"]
    shown = first(operators, MOST_OPERATORS, lambda operator: (not is_changed(operator), -state_bytes(operator)))
    moves = f"{counted(len(operators), 'operator')}, {human_bytes(document['bytes_moved'])} to move"
    blocks: list[Block] = [
        Listed(
            f"plan {document['plan'][:8]}: {moves}",
            (
                f"from {document['source']}, its _metadata written {when(document['taken'])}",
                f"to   {document['target']}",
                *declared_lines(document["surgery"]),
            ),
        ),
        table(OPERATOR_HEADERS, map(operator_row, shown)),
        *left_operators(operators, shown),
        *_shares(operators, shown),
    ]
    blocks += paragraphs(work_lines(document))
    blocks += kafka_tables(document["kafka"])
    blocks += insight_blocks(document["insight"])
    blocks += cluster_blocks(document["cluster"])
    blocks += map(Warned, document["warnings"])
    blocks.append(paragraph(f"afterwards the job starts with: {document['start']}"))
    return Page(tuple(blocks))


def _shares(operators: Sequence[dict[str, Any]], shown: Sequence[dict[str, Any]]) -> list[Block]:
    """What new subtasks get: of operators with many the fullest."""
    rows = [
        (operator["label"], share["subtask"], share["key_groups"], human_bytes(share["bytes"]))
        for operator in shown
        if is_changed(operator)
        for share in first(operator["subtasks"], _MOST_SUBTASKS, lambda share: -share["bytes"])
    ][:MOST_ROWS]
    if not rows:
        return []
    left = sum(len(operator["subtasks"]) for operator in operators if is_changed(operator)) - len(rows)
    shares = table(("operator", "new subtask", "key groups", "state"), rows)
    return [shares, *left_out(left, "more new subtask", "more new subtasks, none of them fuller in its operator")]


def is_changed(operator: dict[str, Any]) -> bool:
    """Whether an operator of such a document gets a new shape."""
    return any(operator[name] != operator[f"new_{name}"] for name in ("parallelism", "max_parallelism"))


OPERATOR_HEADERS = ("operator", "parallelism", "max parallelism", "work", "keyed", "worst ÷ mean", "operator state")


def operator_row(operator: dict[str, Any]) -> tuple[str, ...]:
    """An operator of such a document, under `OPERATOR_HEADERS`."""
    keyed = operator["keyed_bytes"]
    return (
        operator["label"],
        arrow(operator["parallelism"], operator["new_parallelism"]),
        arrow(operator["max_parallelism"], operator["new_max_parallelism"]),
        _work(operator) if keyed else "",
        human_bytes(keyed) if keyed else "",
        f"{operator['evenness']:.2f} → {operator['new_evenness']:.2f}" if keyed else "",
        human_bytes(operator["operator_bytes"]) if operator["operator_bytes"] else "",
    )


def work_lines(document: dict[str, Any]) -> list[str]:
    """What each class of work that the document names means."""
    kinds = {operator["work"] for operator in document["operators"] if operator["keyed_bytes"]}
    return [f"{kind}: {_WORK[kind]}" for kind in sorted(kinds)]


_WORK = {
    WorkClass.RELOCATE: "the max parallelism stays, so key groups, and RocksDB's files, are copied as they are",
    WorkClass.REGROUP: "the new max parallelism divides the old one, so a record's new key group follows from its old "
    "one; how much each subtask gets is as sure as how much lies in each old key group",
    WorkClass.REHASH: "every key is hashed anew, and must hash to the key group that it lies in; how much each subtask "
    "gets is what is to be expected",
}


def _work(operator: dict[str, Any]) -> str:
    """The class of work, and how keys hash if that is no matter of course."""
    own_hash = operator["key_hash"] not in (None, KNOWN)
    return f"{operator['work']} by {operator['key_hash']}" if own_hash else str(operator["work"])


_MOST_SUBTASKS = 16
"""Subtasks of an operator that the text shows."""


def _operator(operator: OperatorPlan, old: Operator, shape: ShapeAdvice | None) -> dict[str, Any]:
    """`old` is what it is in the snapshot; `shape` is there if it has keyed state, and can have several subtasks."""
    return {
        "operator_id": operator.operator_id,
        "label": operator.label,
        "parallelism": operator.parallelism,
        "new_parallelism": operator.new_parallelism,
        "max_parallelism": operator.max_parallelism,
        "new_max_parallelism": operator.new_max_parallelism,
        "work": operator.work.value,
        "key_hash": next((one.key_hash for one in operator.rekeyings), None),
        "keyed_bytes": operator.bytes_of(Slot.KEYED, Slot.RAW_KEYED),
        "operator_bytes": operator.bytes_of(Slot.OPERATOR, Slot.RAW_OPERATOR),
        "evenness": shape.now if shape else 1.0,
        "new_evenness": shape.asked.evenness if shape else 1.0,
        "states": list(operator.states),
        "elements": dealt_elements(old, operator),
        "subtasks": _subtasks(operator),
    }


def _subtasks(operator: OperatorPlan) -> list[dict[str, Any]]:
    """For each new subtask that gets state: its key groups and the bytes of all that it gets."""
    sizes: dict[int, int] = {}
    key_groups = {database.subtask: str(database.covers) for database in operator.databases}
    for subtask, size in enumerate(operator.new_keyed_bytes):
        if size:
            sizes[subtask] = size
    for stream in operator.new_streams:
        if not stream.slot.is_keyed:
            sizes[stream.subtask] = sizes.get(stream.subtask, 0) + stream.size
        elif stream.covers is not None:
            key_groups[stream.subtask] = str(stream.covers)
    return [{"subtask": i, "key_groups": key_groups.get(i, ""), "bytes": sizes[i]} for i in sorted(sizes)]
