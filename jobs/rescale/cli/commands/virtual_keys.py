"""`rescale virtual-keys`: a smallest key for every subtask."""

from __future__ import annotations

import argparse
import re

from tabulate import tabulate

from rescale.cli.output import Output
from rescale.errors import RequestError
from rescale.flink.key_groups import UPPER_BOUND_MAX_PARALLELISM
from rescale.flink.keys.smallest_keys import HASHES, virtual_keys

SUMMARY = "a smallest key for every subtask"
DESCRIPTION = (
    "For jobs that address subtasks by hand-picked keys: prints, for every subtask, the smallest number from 0 up that "
    "keyBy sends there. The table is good for just this parallelism and max parallelism."
)
EXAMPLE = "rescale virtual-keys --max-parallelism 128 --parallelism 6 --key-type int"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-parallelism", metavar="M", type=_number, required=True)
    parser.add_argument("--parallelism", metavar="P", type=_number, required=True)
    parser.add_argument(
        "--key-type",
        choices=tuple(HASHES),
        help="the type of the key in Java; string: the number in decimal (default: all three)",
    )


def _number(word: str) -> int:
    """Of no more digits than say that it is too large."""
    if not re.fullmatch("[0-9]{1,9}", word):
        raise argparse.ArgumentTypeError(f"not a number from 1 to {UPPER_BOUND_MAX_PARALLELISM}: {word!r}")
    return int(word)


def execute(arguments: argparse.Namespace, output: Output) -> None:
    shape = (arguments.max_parallelism, arguments.parallelism)
    if not 1 <= arguments.parallelism <= arguments.max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise RequestError(
            "not a shape that a job can have",
            expected=f"1 ≤ parallelism ≤ max parallelism ≤ {UPPER_BOUND_MAX_PARALLELISM}",
            found=f"parallelism {arguments.parallelism}, max parallelism {arguments.max_parallelism}",
        )
    types = [arguments.key_type] if arguments.key_type else list(HASHES)
    keys = {key_type: virtual_keys(key_type, *shape) for key_type in types}
    document = {"max_parallelism": shape[0], "parallelism": shape[1], "keys": keys}
    rows = [(subtask, *(keys[key_type][subtask] for key_type in types)) for subtask in range(arguments.parallelism)]
    output.answer(document, lambda: tabulate(rows, headers=("subtask", *types)))
