"""`rescale virtual-keys`: print the smallest key for every subtask."""

from __future__ import annotations

import argparse
import re

from tabulate import tabulate

from rescale.cli.output import Output
from rescale.flink.key_groups import UPPER_BOUND_MAX_PARALLELISM
from rescale.flink.keys.virtual_keys import HASH_BY_KEY_TYPE, virtual_keys
from rescale.report.documents import SmallestKeys
from rescale.text.errors import RequestError

SUMMARY = "print the smallest key for every subtask"
DESCRIPTION = (
    "For jobs that address subtasks by hand-picked keys: prints the smallest number, from 0 up, that keyBy sends to "
    "each subtask. The table is valid only for this parallelism and max parallelism."
)
EXAMPLE = "rescale virtual-keys --max-parallelism 128 --parallelism 6 --key-type int"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-parallelism", metavar="M", type=_parse_number, required=True)
    parser.add_argument("--parallelism", metavar="P", type=_parse_number, required=True)
    parser.add_argument(
        "--key-type",
        choices=tuple(HASH_BY_KEY_TYPE),
        help="Java type of the key; string: the number in decimal (default: all three types)",
    )


def _parse_number(word: str) -> int:
    """Parse a number of at most nine digits; the largest max parallelism has five."""
    if not re.fullmatch("[0-9]{1,9}", word):
        raise argparse.ArgumentTypeError(f"{word!r} is not a number from 1 to {UPPER_BOUND_MAX_PARALLELISM}")
    return int(word)


def execute(arguments: argparse.Namespace, output: Output) -> None:
    shape = (arguments.max_parallelism, arguments.parallelism)
    if not 1 <= arguments.parallelism <= arguments.max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise RequestError(
            "a job cannot have this shape",
            expected=f"1 ≤ parallelism ≤ max parallelism ≤ {UPPER_BOUND_MAX_PARALLELISM}",
            found=f"parallelism {arguments.parallelism}, max parallelism {arguments.max_parallelism}",
        )
    types = [arguments.key_type] if arguments.key_type else list(HASH_BY_KEY_TYPE)
    keys = {key_type: tuple(virtual_keys(key_type, *shape)) for key_type in types}
    document = SmallestKeys(*shape, keys)
    rows = [(subtask, *(keys[key_type][subtask] for key_type in types)) for subtask in range(arguments.parallelism)]
    output.answer(document, lambda: tabulate(rows, headers=("subtask", *types)))
