"""`rescale diff`: compare the state of two snapshots."""

from __future__ import annotations

import argparse

from rescale.cli.arguments import add_master, add_request_options, moves_of, prefixes_of
from rescale.cli.command_steps import run_command_step
from rescale.cli.output import Output
from rescale.cli.terminal import waiting
from rescale.insight.file_changes import file_changes
from rescale.options.command_line import arguments_of_step, options_of
from rescale.options.option import HelpGroup
from rescale.options.profiles import add_profiles
from rescale.report.differences import DiffDocument
from rescale.report.pages.difference import difference_page
from rescale.report.pages.file_changes import file_changes_page
from rescale.runstate.step import Step
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.locations import normalise
from rescale.text.errors import IntegrityError, RequestError

SUMMARY = "compare the state of two snapshots"
DESCRIPTION = (
    "Reads all state of A and B, which may have different shapes, and compares it by operator and state: every record, "
    "timer, element and broadcast copy, and the types of states. Names the first differences. Writes nothing. Exit "
    "code 0: equal; 4: different."
    "\n\n"
    "With --by-file, compares two checkpoints of a running job by their files, without reading rows: how much a round "
    "of `rescale follow` would read, and whether a live rescale pays off. Exit code 0."
)
EXAMPLE = "rescale diff s3://flink/savepoint-1a2b s3://flink/new"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name in ("A", "B"):
        parser.add_argument(name.lower(), metavar=name, help="a savepoint or checkpoint")
    add_request_options(parser, "diff", "Intended differences in B; everything else is compared.")
    add_master(parser)
    add_profiles(parser, "a", ("b",))
    parser.add_argument(
        "--by-file",
        action="store_true",
        help="compare by files only: B is a later checkpoint of the same job as A, with RocksDB's incremental files",
    )


def execute(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.by_file:
        return _compare_by_file(arguments, output)
    snapshot_arguments = ["--a", normalise(arguments.a), "--b", normalise(arguments.b)]
    options, text_by_flag = arguments_of_step(arguments, "diff")
    result = run_command_step(Step.DIFF, [*snapshot_arguments, *options], arguments.master, text_by_flag)
    document = result.read(DiffDocument)
    output.answer_page(document, difference_page)
    return 0 if document.equal else IntegrityError.exit_code


def _compare_by_file(arguments: argparse.Namespace, output: Output) -> int:
    """Print what a round of a live rescale would read, which follows from the files of the two checkpoints."""
    for row in options_of("diff"):
        if row.group is HelpGroup.CHANGED_JOB and vars(arguments)[row.attribute]:
            raise RequestError(
                "--by-file compares two checkpoints of the same job, and takes no changes of the job",
                found=row.flag,
                advice=f"leave {row.flag} out, or leave --by-file out to compare the records",
            )
    allowed_prefixes, moves = prefixes_of(arguments), moves_of(arguments)
    with waiting("reading the files of both checkpoints"):
        a, b = (open_snapshot(normalise(uri), allowed_prefixes, moves=moves) for uri in (arguments.a, arguments.b))
        changes = file_changes(a, b)
    output.answer_page(changes, file_changes_page)
    return 0
