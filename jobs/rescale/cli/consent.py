"""Confirmation of runs that lose state, restart subtasks or mix max parallelisms: a user at a terminal has to agree."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rescale.cli.output import Output
from rescale.plan.mixed_maxima import mixed_maxima_sentence
from rescale.report.pages.declared import declared_lines
from rescale.snapshot.surgery import Surgery
from rescale.text.errors import RequestError


def confirm_losses(surgery: Surgery, output: Output, *, yes: bool) -> None:
    """Ask on a terminal whether state may be lost, unless `yes`. Raises `RequestError` without consent."""
    if yes or not (surgery.dropped or surgery.dropped_states or surgery.old_rows):
        return
    losses = Surgery(dropped=surgery.dropped, dropped_states=surgery.dropped_states, old_rows=surgery.old_rows)
    lost = declared_lines(losses)
    if not _agrees(lost, "Lose this state?", output):
        raise RequestError(
            "the run would lose state, and that was not confirmed; nothing was written",
            found="; ".join(lost),
            advice="if the state may be lost, add --yes",
        )


def confirm_restarts(surgery: Surgery, output: Output, *, yes: bool) -> None:
    """Ask on a terminal whether finished subtasks may run again, unless `yes`.

    Raises `RequestError` without an agreement.
    """
    if yes or not surgery.restarted:
        return
    again = declared_lines(Surgery(restarted=surgery.restarted))
    if not _agrees(again, "Run these subtasks again?", output):
        raise RequestError(
            "the run would restart finished subtasks, and that was not confirmed; nothing was written",
            found="; ".join(again),
            advice="if they may run again, add --yes",
        )


def confirm_mixed_maxima(maxima: tuple[int, ...], output: Output, *, yes: bool) -> None:
    """Ask on a terminal whether operators may get different max parallelisms, unless `yes`, or `maxima` is empty.

    Raises `RequestError` without an agreement.
    """
    if yes or not maxima:
        return
    sentence = mixed_maxima_sentence(maxima)
    if not _agrees([sentence], "Is no such pair of operators chained?", output):
        raise RequestError(
            "the run would give operators different max parallelisms, and that was not confirmed; nothing was moved",
            found=sentence,
            advice="give all operators the same one; or, if none of them are chained to each other, add --yes",
        )


def _agrees(lines: Sequence[str], question: str, output: Output) -> bool:
    """Print the lines and the question, and return whether a user at a terminal answers yes."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    output.say("\n".join([*lines, f"{question} Type yes to agree:"]))
    return sys.stdin.readline().strip().lower() in ("y", "yes")
