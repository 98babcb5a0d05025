"""All that is known of a snapshot, a plan or a run, as one JSON document: what a report is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FORMAT = 1


def report_document(
    *,
    snapshot: dict[str, Any] | None = None,
    plan: dict[str, Any] | None = None,
    certificate: dict[str, Any] | None = None,
    published: bool = False,
    error: dict[str, Any] | None = None,
    took: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """`snapshot` is an inspection, `plan` the document of a plan: one of the two is there.

    `error` is what a run ended with; `took` are seconds by step.
    """
    return {
        "report": FORMAT,
        "snapshot": snapshot,
        "plan": plan,
        "certificate": certificate,
        "published": published,
        "error": error,
        "took": dict(took or {}),
    }


def shortened(value: Any, longest: int) -> Any:
    """The document with what is longer than so many items cut short; `{"left_out": 32768}` says by how many.

    Of numbers, and of what is said of each subtask, nothing is kept then: a part of them says nothing.
    """
    if isinstance(value, dict):
        return {key: shortened(inner, longest) for key, inner in value.items()}
    if not isinstance(value, list | tuple):
        return value
    if len(value) <= longest:
        return [shortened(inner, longest) for inner in value]
    whole = isinstance(value[0], dict) and "subtask" not in value[0]
    kept = value[:longest] if whole else []
    return [*(shortened(inner, longest) for inner in kept), {"left_out": len(value) - len(kept)}]
