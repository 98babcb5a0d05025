"""Confirmation of a loss of state: the user sees what is lost, and has to agree."""

from __future__ import annotations

import sys

from rescale.cli.output import Output
from rescale.report.pages.declared import declared_lines
from rescale.snapshot.surgery import Surgery
from rescale.text.errors import RequestError


def agree_to_losses(surgery: Surgery, output: Output, *, yes: bool) -> None:
    """Ask on a terminal whether state may be lost, unless `yes`. Raises `RequestError` without an agreement."""
    if yes or not (surgery.dropped or surgery.dropped_states):
        return
    lost = declared_lines(Surgery(dropped=surgery.dropped, dropped_states=surgery.dropped_states))
    if sys.stdin.isatty() and sys.stderr.isatty():
        output.say("\n".join([*lost, "Lose this state? Type yes to agree:"]))
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise RequestError(
        "the run would lose state, and nobody has agreed to that; nothing was written",
        found="; ".join(lost),
        advice="if the state may be lost, add --yes",
    )
