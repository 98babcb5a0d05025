"""`rescale diff`: do two snapshots hold the same state?"""

from __future__ import annotations

import argparse

from rescale.cli.arguments import add_allow_prefix, add_master, add_surgery, declared_options
from rescale.cli.output import Output
from rescale.cli.own_step import run_own_step
from rescale.errors import IntegrityError
from rescale.process import Step
from rescale.report.pages.difference import difference_text
from rescale.storage.locations import normalise

SUMMARY = "do two snapshots hold the same state?"
DESCRIPTION = (
    "Reads all state of A and B, whatever their shapes, and compares it by operator and state: every record, timer, "
    "element and copy, and the types of states. Names the first differences. Writes nothing. Exit code 0: equal; 4: "
    "different."
)
EXAMPLE = "rescale diff s3://flink/savepoint-1a2b s3://flink/new"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name, number in (("A", "one"), ("B", "another")):
        parser.add_argument(name.lower(), metavar=name, help=f"{number} savepoint or checkpoint")
    add_allow_prefix(parser)
    add_surgery(parser, "What differs in B on purpose; all else is compared.")
    add_master(parser)


def execute(arguments: argparse.Namespace, output: Output) -> int:
    words = ["--a", normalise(arguments.a), "--b", normalise(arguments.b), *declared_options(arguments)]
    document = run_own_step(Step.DIFF, words, arguments.master)
    output.answer(document, lambda: difference_text(document))
    return 0 if document["equal"] else IntegrityError.exit_code
