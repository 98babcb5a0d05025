"""What a result is declared to have otherwise than its source, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

DECLARED = "Declared differences"


def declared_lines(surgery: dict[str, Any]) -> list[str]:
    """A sentence for each, of a `Surgery` as JSON values."""
    return list(_lines(surgery))


def _lines(surgery: dict[str, Any]) -> Iterator[str]:
    for one in surgery["renamed"]:
        new = f"{one['uid']} ({one['new_operator_id']})" if one["uid"] else one["new_operator_id"]
        old = one["label"]
        was = old if one["operator_id"] in old else f"{old} ({one['operator_id']})"
        yield f"{was} is renamed to {new}"
