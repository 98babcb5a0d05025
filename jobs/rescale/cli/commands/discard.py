"""`rescale discard`: remove the files that an unpublished run left."""

from __future__ import annotations

import argparse

from rescale.cli.output import Output
from rescale.options.profiles import add_profiles
from rescale.planning.request.request import target_place
from rescale.runstate.removal import discard
from rescale.storage.scratch import remove_all_abandoned
from rescale.text.units import counted

SUMMARY = "remove the files that an unpublished run left"
DESCRIPTION = (
    "Removes the files and the claim of a run that did not publish. Never removes a published result, or files that "
    "Rescale did not write."
)
EXAMPLE = "rescale discard s3://flink/new"

_NOTHING_TO_REMOVE = "nothing to remove: there are no files of an unpublished run in this target or beside it"

RESUMES = True
"""Whether the same command resumes the work after an interruption."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="the target of that run")
    add_profiles(parser, target_attributes=("target",))


def execute(arguments: argparse.Namespace, output: Output) -> None:
    remove_all_abandoned()
    discard_answer = discard(target_place(arguments.target))
    text = (
        [f"removed {counted(len(discard_answer.removed), 'file')}"] if discard_answer.removed else [_NOTHING_TO_REMOVE]
    )
    if discard_answer.left:
        left_files_text = counted(len(discard_answer.left), "file")
        text.append(f"kept {left_files_text} that Rescale did not write, such as {discard_answer.left[0]}")
    output.answer(discard_answer, lambda: "\n".join(text))
