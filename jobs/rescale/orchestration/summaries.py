"""What goes from task to task: URIs, and summaries for people of at most 8 KiB, however large the snapshot is.

Airflow keeps every one of them in its database and shows it beside the task. What is long lies in storage.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rescale.flink.slot import Slot
from rescale.insight.key_group_sizes import evenness
from rescale.planning.operator_plan import OperatorPlan
from rescale.planning.plan import Plan
from rescale.report.kafka import kafka_line
from rescale.snapshot.model import Operator, Snapshot
from rescale.target.places import places_of

LIMIT = 8 * 1024
"""Largest summary, in bytes of JSON."""

_MOST = 10
_LONGEST = 200


def snapshot_summary(snapshot: Snapshot, seen: dict[str, Any]) -> dict[str, Any]:
    """What a snapshot is, its largest operators, its Kafka sources and its warnings; `seen` is its inspection."""
    largest = sorted(snapshot.operators, key=lambda operator: -operator.bytes)
    kept = {key: seen[key] for key in ("kind", "written_by", "checkpoint_id", "taken", "files", "bytes")}
    return _fitted(
        {
            **kept,
            "operators": len(largest),
            "largest_operators": [_operator_line(operator) for operator in largest[:_MOST]],
            "kafka": _shortened([kafka_line(source) for source in seen["kafka"]]),
            "warnings": _shortened(seen["warnings"]),
        }
    )


def plan_summary(plan: Plan, *, published: bool) -> dict[str, Any]:
    """Where the plan lies, and what it would do to the largest operators; `published`: it has been done already."""
    sizes = {operator.operator_id: operator.bytes_of(*Slot) for operator in plan.operators}
    largest = sorted(plan.operators, key=lambda operator: -sizes[operator.operator_id])
    return _fitted(
        {
            "plan": places_of(plan).plan,
            "digest": plan.digest,
            "target": plan.target,
            "published": published,
            "bytes": plan.bytes_moved,
            "operators": len(plan.operators),
            "operators_changed": sum(_is_changed(operator) for operator in plan.operators),
            "largest_operators": [
                {
                    "operator": _short(operator.label),
                    "parallelism": [operator.parallelism, operator.new_parallelism],
                    "max_parallelism": [operator.max_parallelism, operator.new_max_parallelism],
                    "bytes": sizes[operator.operator_id],
                    "worst_by_mean": [
                        round(evenness(operator.old_keyed_bytes), 2),
                        round(evenness(operator.new_keyed_bytes), 2),
                    ],
                }
                for operator in largest[:_MOST]
            ],
            "warnings": _shortened(plan.warnings),
        }
    )


def certificate_summary(certificate: dict[str, Any], uri: str) -> dict[str, Any]:
    """The verdict, and where the whole certificate lies."""
    kept = {key: certificate[key] for key in ("verdict", "bytes", "candidate_sha256")}
    return {"certificate": uri, **kept, "operators": len(certificate["operators"])}


def _is_changed(operator: OperatorPlan) -> bool:
    old = (operator.parallelism, operator.max_parallelism)
    return old != (operator.new_parallelism, operator.new_max_parallelism)


def _operator_line(operator: Operator) -> dict[str, Any]:
    shape = [operator.entry.parallelism, operator.entry.max_parallelism]
    return {"operator": _short(operator.label), "parallelism_and_max": shape, "bytes": operator.bytes}


def _fitted(summary: dict[str, Any]) -> dict[str, Any]:
    """The summary, with as few lines taken from the ends of its lists as make it fit."""
    while len(json.dumps(summary).encode()) > LIMIT:
        lists = [lines for lines in summary.values() if isinstance(lines, list) and lines]
        if not lists:
            break
        max(lists, key=lambda lines: len(json.dumps(lines))).pop()
    return summary


def _shortened(sentences: Sequence[str]) -> list[str]:
    more = [f"and {len(sentences) - _MOST} more"] if len(sentences) > _MOST else []
    return [*map(_short, sentences[:_MOST]), *more]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
