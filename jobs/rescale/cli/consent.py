"""State is lost only if whoever asked for it has seen what, and says so once more."""

from __future__ import annotations

import sys
from typing import Any

from rescale.cli.output import Output
from rescale.errors import RequestError
from rescale.report.pages.declared import declared_lines


def agree_to_losses(surgery: dict[str, Any], output: Output, *, yes: bool) -> None:
    """Asks on a terminal where `yes` was not said; `RequestError` if nobody agrees. Of a `Surgery` as JSON values."""
    if yes or not (surgery["dropped"] or surgery["dropped_states"]):
        return
    lost = declared_lines({**surgery, "renamed": [], "kafka": []})
    if sys.stdin.isatty() and sys.stderr.isatty():
        output.say("\n".join([*lost, "May this be lost? Type yes:"]))
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise RequestError(
        "state would be lost, and nobody has agreed to that; nothing was written",
        found="; ".join(lost),
        advice="if it may be lost, say so: --yes",
    )
