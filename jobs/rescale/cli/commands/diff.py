"""`rescale diff`: compare the state of two snapshots."""

from __future__ import annotations

import argparse

import msgspec

from rescale.cli.arguments import add_master, add_request_options
from rescale.cli.output import Output
from rescale.cli.own_step import run_own_step
from rescale.options.command_line import arguments_of_step
from rescale.report.differences import DiffDocument
from rescale.report.pages.difference import difference_text
from rescale.runstate.step import Step
from rescale.storage.locations import normalise
from rescale.text.errors import IntegrityError

SUMMARY = "compare the state of two snapshots"
DESCRIPTION = (
    "Reads all state of A and B, which may have different shapes, and compares it by operator and state: every record, "
    "timer, element and broadcast copy, and the types of states. Names the first differences. Writes nothing. Exit "
    "code 0: equal; 4: different."
)
EXAMPLE = "rescale diff s3://flink/savepoint-1a2b s3://flink/new"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name in ("A", "B"):
        parser.add_argument(name.lower(), metavar=name, help="a savepoint or checkpoint")
    add_request_options(parser, "diff", "Intended differences in B; everything else is compared.")
    add_master(parser)


def execute(arguments: argparse.Namespace, output: Output) -> int:
    snapshots = ["--a", normalise(arguments.a), "--b", normalise(arguments.b)]
    result = run_own_step(Step.DIFF, [*snapshots, *arguments_of_step(arguments, "diff")], arguments.master)
    document = msgspec.convert(result, DiffDocument)
    output.answer(document, lambda: difference_text(document))
    return 0 if document.equal else IntegrityError.exit_code
