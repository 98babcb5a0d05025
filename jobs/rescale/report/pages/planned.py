"""The output of `plan`: a plan as a document, and a page with the most important parts of it."""

from __future__ import annotations

from collections.abc import Sequence

from rescale.flink.keys.pojo_formulas import KNOWN_HASH
from rescale.flink.slot import Slot
from rescale.flink.start import REPLAY_WARNING
from rescale.insight.cluster import Cluster
from rescale.insight.cluster_estimate import cluster_report
from rescale.insight.insight import plan_insight
from rescale.insight.shapes import ShapeAdvice
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.plan import Plan
from rescale.plan.work_class import WorkClass
from rescale.report.documents import PlanDocument, PlannedOperator, SubtaskShare
from rescale.report.page import Block, Bullets, Page, WarningBlock, paragraph, paragraphs, table
from rescale.report.pages.cluster_costs import cluster_blocks, cluster_warnings
from rescale.report.pages.declared import declared_lines
from rescale.report.pages.elements import dealt_elements
from rescale.report.pages.insights import insight_blocks
from rescale.report.pages.kafka import kafka_document, kafka_tables
from rescale.report.pages.rounds import rounds_blocks
from rescale.report.shortening import (
    MOST_OPERATORS,
    MOST_ROWS,
    lowest,
    note_on_other_operators,
    note_on_rest,
    state_bytes,
)
from rescale.runstate.follower.rounds import Round
from rescale.snapshot.kafka.offsets import KafkaOffsets
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.reading.given_names import unused_names_note
from rescale.text.units import arrow, counted, human_bytes, instant_text


def plan_document(
    plan: Plan,
    snapshot: Snapshot,
    source_offsets: Sequence[KafkaOffsets] = (),
    cluster: Cluster | None = None,
    rounds: Sequence[Round] = (),
) -> PlanDocument:
    """Return the document of a plan: the plan without byte ranges, and the insight into it and its `snapshot`.

    `source_offsets` are those of the Kafka sources. `cluster` is the cluster on which the plan would run, if known.
    `rounds` are the rounds that a follower made before the plan.
    """
    metadata_time = snapshot.metadata_time
    insight = plan_insight(plan, snapshot)
    estimate = cluster_report(plan, cluster) if cluster is not None else None
    advice_by_id = {advice.operator_id: advice for advice in insight.shapes}
    new_parallelism_by_id = {operator.operator_id: operator.new_parallelism for operator in plan.operators}
    return PlanDocument(
        plan=plan.digest,
        source=plan.source,
        taken=metadata_time.isoformat(sep=" ", timespec="seconds") if metadata_time else None,
        target=plan.target,
        bytes_moved=plan.bytes_moved,
        operators=tuple(
            _operator(operator, old, advice_by_id.get(operator.operator_id))
            for operator, old in zip(plan.operators, snapshot.operators, strict=True)
        ),
        kafka=tuple(
            kafka_document(offsets, new_parallelism_by_id[offsets.operator.operator_id]) for offsets in source_offsets
        ),
        surgery=plan.surgery,
        warnings=(*plan.warnings, *cluster_warnings(estimate), *unused_names_note(snapshot.unused_names)),
        start=plan.start.command,
        insight=insight,
        cluster=estimate,
        rounds=tuple(rounds),
    )


def plan_page(document: PlanDocument) -> Page:
    operators = document.operators
    shown_operators = lowest(
        operators, MOST_OPERATORS, lambda operator: (not operator.is_changed, -state_bytes(operator))
    )
    moves_text = f"{counted(len(operators), 'operator')}, {human_bytes(document.bytes_moved)} to write"
    blocks: list[Block] = [
        Bullets(
            f"plan {document.plan[:8]}: {moves_text}",
            (
                f"from {document.source}, its _metadata written {instant_text(document.taken)}",
                f"to   {document.target}",
                *declared_lines(document.surgery),
            ),
        ),
        table(OPERATOR_HEADERS, map(operator_row, shown_operators)),
        *note_on_other_operators(operators, shown_operators),
        *_shares_table(operators, shown_operators),
    ]
    blocks += paragraphs(work_lines(document))
    blocks += kafka_tables(document.kafka)
    blocks += rounds_blocks(document.rounds)
    blocks += insight_blocks(document.insight)
    blocks += cluster_blocks(document.cluster)
    blocks += map(WarningBlock, document.warnings)
    if document.start:
        blocks.append(paragraph(REPLAY_WARNING))
        blocks.append(paragraph(f"afterwards the job starts with: {document.start}"))
    return Page(tuple(blocks))


def _shares_table(operators: Sequence[PlannedOperator], shown_operators: Sequence[PlannedOperator]) -> list[Block]:
    """Return the table of the bytes of new subtasks of changed operators; of many subtasks, only the fullest.

    An operator whose rows would make the table longer than `MOST_ROWS` is left out, with all operators after it.
    """
    rows: list[tuple[str, int, str, str]] = []
    for operator in shown_operators:
        shares = lowest(operator.subtasks, _MOST_SUBTASKS, lambda share: -share.bytes) if operator.is_changed else []
        if len(rows) + len(shares) > MOST_ROWS:
            break
        rows += [(operator.label, share.subtask, share.key_groups, human_bytes(share.bytes)) for share in shares]
    if not rows:
        return []
    number_omitted = sum(len(operator.subtasks) for operator in operators if operator.is_changed) - len(rows)
    shares_table = table(("operator", "new subtask", "key groups", "state"), rows)
    return [
        shares_table,
        *note_on_rest(
            number_omitted,
            "more new subtask",
            "more new subtasks; those of an operator in the table hold no more than its shown ones",
        ),
    ]


OPERATOR_HEADERS = ("operator", "parallelism", "max parallelism", "work", "keyed", "worst ÷ mean", "operator state")


def operator_row(operator: PlannedOperator) -> tuple[str, ...]:
    """Return the row of an operator of a plan, for `OPERATOR_HEADERS`."""
    keyed_bytes = operator.keyed_bytes
    return (
        operator.label,
        arrow(operator.parallelism, operator.new_parallelism),
        arrow(operator.max_parallelism, operator.new_max_parallelism),
        _work_text(operator) if keyed_bytes else "",
        human_bytes(keyed_bytes) if keyed_bytes else "",
        f"{operator.evenness:.2f} → {operator.new_evenness:.2f}" if keyed_bytes else "",
        human_bytes(operator.operator_bytes) if operator.operator_bytes else "",
    )


def work_lines(document: PlanDocument) -> list[str]:
    """Return a line for each `WorkClass` in a plan, which says what it means."""
    kinds = {operator.work for operator in document.operators if operator.keyed_bytes}
    return [f"{kind}: {_MEANING_OF_WORK[WorkClass(kind)]}" for kind in sorted(kinds)]


_MEANING_OF_WORK = {
    WorkClass.RELOCATE: "the max parallelism stays, so every record keeps its key group; where neither format nor "
    "state changes, key groups and RocksDB's files are copied as they are",
    WorkClass.REGROUP: "the new max parallelism divides the old one, so a record's old key group determines its new "
    "one; bytes by subtask are as exact as bytes by old key group",
    WorkClass.REHASH: "every key is hashed again, and must hash to the old key group that it lies in; bytes by subtask "
    "are expected values",
}


def _work_text(operator: PlannedOperator) -> str:
    """Return the `WorkClass`, with the name of the key hash unless it is `KNOWN_HASH`."""
    has_own_hash = operator.key_hash not in (None, KNOWN_HASH)
    return f"{operator.work} by {operator.key_hash}" if has_own_hash else operator.work


_MOST_SUBTASKS = 16
"""Largest number of new subtasks of an operator that the text shows."""


def _operator(operator: OperatorPlan, old: Operator, advice: ShapeAdvice | None) -> PlannedOperator:
    """Return the document of an operator.

    `old` is the operator in the snapshot. `advice` is None without keyed state or with max parallelism 1.
    """
    return PlannedOperator(
        operator_id=operator.operator_id,
        label=operator.label,
        parallelism=operator.parallelism,
        new_parallelism=operator.new_parallelism,
        max_parallelism=operator.max_parallelism,
        new_max_parallelism=operator.new_max_parallelism,
        work=operator.work.value,
        key_hash=next((rekeying.key_hash for rekeying in operator.rekeyings), None),
        keyed_bytes=operator.bytes_of(Slot.KEYED, Slot.RAW_KEYED),
        operator_bytes=operator.bytes_of(Slot.OPERATOR, Slot.RAW_OPERATOR),
        evenness=advice.now if advice else 1.0,
        new_evenness=advice.requested.evenness if advice else 1.0,
        states=operator.states,
        elements=dealt_elements(old, operator),
        subtasks=tuple(_subtask_shares(operator)),
    )


def _subtask_shares(operator: OperatorPlan) -> list[SubtaskShare]:
    """Return the key groups and bytes of each new subtask that gets state."""
    sizes: dict[int, int] = {}
    key_groups = {database.subtask: str(database.key_group_range) for database in operator.databases}
    for subtask, size in enumerate(operator.new_keyed_bytes):
        if size:
            sizes[subtask] = size
    for stream in operator.new_streams:
        if not stream.slot.is_keyed:
            sizes[stream.subtask] = sizes.get(stream.subtask, 0) + stream.size
        elif stream.key_group_range is not None:
            key_groups[stream.subtask] = str(stream.key_group_range)
    return [SubtaskShare(i, key_groups.get(i, ""), sizes[i]) for i in sorted(sizes)]
