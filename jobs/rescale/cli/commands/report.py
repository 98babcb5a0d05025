"""`rescale report`: what is known of a snapshot, a plan or a run, as a page to look at."""

from __future__ import annotations

import argparse

from rescale.cli.arguments import add_allow_prefix, add_for_flink, add_uids, line_of, prefixes_of, uids_of
from rescale.cli.output import Output
from rescale.cli.terminal import waiting
from rescale.names import printable
from rescale.report.stored import report_of
from rescale.report.units import human_bytes
from rescale.storage.locations import normalise
from rescale.storage.store import open_store

SUMMARY = "a page to look at: of a snapshot, a plan or a run"
DESCRIPTION = (
    "Makes one HTML file with pictures of key groups, load, operator state, Kafka offsets and costs, and with the "
    "certificate of a run. It needs no network and no scripts. A run puts one beside its target by itself."
)
EXAMPLE = "rescale report s3://flink/new -o new.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "of",
        metavar="SOURCE|PLAN|TARGET",
        help="a savepoint or checkpoint; the file of a plan (<target>.rescale/plan-….json); or the target of a run",
    )
    parser.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        default="report.html",
        help="where to put it: a path or s3:// (default: %(default)s)",
    )
    add_allow_prefix(parser)
    add_uids(parser)
    add_for_flink(parser)


def execute(arguments: argparse.Namespace, output: Output) -> None:
    with waiting(f"reading {arguments.of}"):
        line = line_of(arguments)
        page = report_of(normalise(arguments.of), prefixes_of(arguments), uids_of(arguments), line)
    place = normalise(arguments.out)
    open_store(place).put(place, page)
    answer = {"report": place, "bytes": len(page)}
    output.answer(answer, lambda: f"{printable(place)}: {human_bytes(len(page))}")
