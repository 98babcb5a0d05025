"""What goes from task to task: URIs, and summaries for people of at most 8 KiB, however large the snapshot is.

Airflow keeps every one of them in its database and shows it beside the task. What is long lies in storage.

Sizes are of four things, and called so: `bytes_in_source` is all state of the source, headers of streams included;
`bytes_to_write` is what the new streams take, with a header each; `bytes_compared` are key groups and elements alone,
which is what validation compares. A step's `bytes` are its part of what is written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rescale.planning.values.operator_plan import OperatorPlan
from rescale.planning.values.plan import Plan
from rescale.report.pages.declared import certified_lines, declared_lines
from rescale.report.pages.kafka import kafka_line
from rescale.snapshot.model import Operator, Snapshot
from rescale.target.places import places_of

LIMIT = 8 * 1024
"""Largest summary, in bytes of JSON."""

_MOST = 10
_LONGEST = 200


def snapshot_summary(snapshot: Snapshot, seen: dict[str, Any]) -> dict[str, Any]:
    """What a snapshot is, its largest operators, its Kafka sources and its warnings; `seen` is its inspection."""
    largest = sorted(snapshot.operators, key=lambda operator: -operator.bytes)
    kept = {key: seen[key] for key in ("kind", "written_by", "checkpoint_id", "files")}
    return _fitted(
        {
            **kept,
            "metadata_written": seen["taken"],
            "bytes_in_source": seen["bytes"],
            "operators": len(largest),
            "largest_operators": [_operator_line(operator) for operator in largest[:_MOST]],
            "kafka": _shortened([kafka_line(source) for source in seen["kafka"]]),
            "warnings": _shortened(seen["warnings"]),
        }
    )


def plan_summary(plan: Plan, shown: dict[str, Any], *, published: bool) -> dict[str, Any]:
    """Where the plan lies, and what it would do to the largest operators; `published`: it has been done already.

    `shown` is the plan as its log shows it: its numbers and warnings are taken from there, so that both say the same.
    """
    largest = sorted(shown["operators"], key=lambda operator: -(operator["keyed_bytes"] + operator["operator_bytes"]))
    return _fitted(
        {
            "plan": places_of(plan).plan,
            "digest": plan.digest,
            "target": plan.target,
            "published": published,
            "bytes_to_write": shown["bytes_moved"],
            "operators": len(largest),
            "operators_changed": sum(_is_changed(operator) for operator in plan.operators),
            "largest_operators": [
                {
                    "operator": _short(operator["label"]),
                    "parallelism": [operator["parallelism"], operator["new_parallelism"]],
                    "max_parallelism": [operator["max_parallelism"], operator["new_max_parallelism"]],
                    "keyed_bytes": operator["keyed_bytes"],
                    "operator_bytes": operator["operator_bytes"],
                    "worst_by_mean": [round(operator["evenness"], 2), round(operator["new_evenness"], 2)],
                }
                for operator in largest[:_MOST]
            ],
            "declared": _shortened(declared_lines(shown["surgery"])),
            "warnings": _shortened(shown["warnings"]),
        }
    )


def certificate_summary(certificate: dict[str, Any], uri: str) -> dict[str, Any]:
    """The verdict, what is declared to be otherwise, and where the whole certificate lies."""
    kept = {key: certificate[key] for key in ("verdict", "proof", "candidate_sha256")}
    counted = {"bytes_compared": certificate["bytes"], "operators": len(certificate["operators"])}
    declared = {"declared": _shortened(certified_lines(certificate))}
    return _fitted({"certificate": uri, **kept, **counted, **declared})


def _is_changed(operator: OperatorPlan) -> bool:
    old = (operator.parallelism, operator.max_parallelism)
    return old != (operator.new_parallelism, operator.new_max_parallelism)


def _operator_line(operator: Operator) -> dict[str, Any]:
    shape = [operator.parallelism, operator.max_parallelism]
    return {"operator": _short(operator.label), "parallelism_and_max": shape, "bytes_in_source": operator.bytes}


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
