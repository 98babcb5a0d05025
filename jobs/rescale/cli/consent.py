"""Confirmation of runs that lose state, restart subtasks or mix max parallelisms: a user at a terminal has to agree."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rescale.cli.output import Output
from rescale.plan.mixed_maxima import mixed_maxima_sentence
from rescale.report.pages.declared import declared_lines
from rescale.snapshot.surgery import Surgery
from rescale.text.errors import RequestError


def confirm_losses(surgery: Surgery, output: Output, *, is_confirmed: bool) -> None:
    """Ask whether state may be lost, unless `is_confirmed`."""
    losses = Surgery(dropped=surgery.dropped, dropped_states=surgery.dropped_states, old_rows=surgery.old_rows)
    what = "the run would lose state, and that was not confirmed; nothing was written"
    advice = "if the state may be lost, add --yes"
    _confirm(declared_lines(losses), "Lose this state?", what, advice, output, is_confirmed=is_confirmed)


def confirm_restarts(surgery: Surgery, output: Output, *, is_confirmed: bool) -> None:
    """Ask whether finished subtasks may run again, unless `is_confirmed`."""
    restart_lines = declared_lines(Surgery(restarted=surgery.restarted))
    what = "the run would restart finished subtasks, and that was not confirmed; nothing was written"
    _confirm(
        restart_lines,
        "Run these subtasks again?",
        what,
        "if they may run again, add --yes",
        output,
        is_confirmed=is_confirmed,
    )


def confirm_mixed_maxima(maxima: tuple[int, ...], output: Output, *, is_confirmed: bool) -> None:
    """Ask whether operators may get different max parallelisms, unless `is_confirmed`, or `maxima` is empty."""
    lines = [mixed_maxima_sentence(maxima)] if maxima else []
    what = "the run would give operators different max parallelisms, and that was not confirmed; nothing was moved"
    advice = "give all operators the same one; or, if none of them are chained to each other, add --yes"
    question = "Are you sure that none of these operators are chained to each other?"
    _confirm(lines, question, what, advice, output, is_confirmed=is_confirmed)


def _confirm(
    lines: Sequence[str], question: str, what: str, advice: str, output: Output, *, is_confirmed: bool
) -> None:
    """Print the lines and ask the question, unless `is_confirmed` or there are no lines.

    Raises `RequestError`, with the text `what` and the advice, unless a user at a terminal agrees.
    """
    if is_confirmed or not lines:
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        output.say("\n".join([*lines, f"{question} Type yes to agree:"]))
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise RequestError(what, found="; ".join(lines), advice=advice)
