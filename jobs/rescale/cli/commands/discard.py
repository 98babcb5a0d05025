"""`rescale discard`: remove what an unpublished run left."""

from __future__ import annotations

import argparse

from rescale.cli.output import Output
from rescale.planning.asked.request import target_place
from rescale.report.units import counted
from rescale.storage.scratch import remove_all_left
from rescale.target.removal import discard

SUMMARY = "remove what an unpublished run left"
DESCRIPTION = "Removes files and claim of a run that did not publish. Never touches a published result, or other files."
EXAMPLE = "rescale discard s3://flink/new"

_NOTHING = "there is nothing to remove: no run has left anything in this target, or beside it"

RESUMES = True
"""After it was interrupted, the same command goes on."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="the target of that run")


def execute(arguments: argparse.Namespace, output: Output) -> None:
    remove_all_left()
    discarded = discard(target_place(arguments.target))
    document = {"removed": list(discarded.removed), "left": list(discarded.left)}
    text = [f"removed {counted(len(discarded.removed), 'file')}"] if discarded.removed else [_NOTHING]
    if discarded.left:
        text.append(f"left {counted(len(discarded.left), 'file')} that are not ours, such as {discarded.left[0]}")
    output.answer(document, lambda: "\n".join(text))
