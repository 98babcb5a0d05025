"""`rescale diff`: do two snapshots hold the same state?"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from rescale.cli.arguments import add_allow_prefix, add_master
from rescale.cli.output import Output
from rescale.errors import IntegrityError
from rescale.process import Step, run_step
from rescale.report.difference import difference_text
from rescale.storage.locations import normalise

SUMMARY = "do two snapshots hold the same state?"
DESCRIPTION = (
    "Reads all state of A and B, whatever their shapes, and compares it by operator and state: every record, timer, "
    "element and copy. Names the first differences. Writes nothing. Exit code 0: equal; 4: different."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name, number in (("A", "one"), ("B", "another")):
        parser.add_argument(name.lower(), metavar=name, help=f"{number} savepoint or checkpoint")
    add_allow_prefix(parser)
    add_master(parser)


def execute(arguments: argparse.Namespace, output: Output) -> int:
    words = ["--a", normalise(arguments.a), "--b", normalise(arguments.b)]
    for prefix in arguments.allow_prefix:
        words += ["--allow-prefix", prefix]
    with tempfile.TemporaryDirectory() as directory:
        result = str(Path(directory, "result.json"))
        document = run_step(Step.DIFF, result, [*words, "--master", arguments.master])
    output.answer(document, lambda: difference_text(document))
    return 0 if document["equal"] else IntegrityError.exit_code
