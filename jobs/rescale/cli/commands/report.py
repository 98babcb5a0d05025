"""`rescale report`: what is known of a snapshot, a plan or a run, as a page to look at."""

from __future__ import annotations

import argparse

from rescale.cli.arguments import add_allow_prefix, add_for_flink, add_uids, prefixes_of, release_line_of, uids_of
from rescale.cli.output import Output
from rescale.cli.terminal import waiting
from rescale.errors import RequestError
from rescale.names import printable
from rescale.report.stored import report_of
from rescale.report.units import human_bytes
from rescale.storage.locations import contains, normalise, real
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
    of, place = normalise(arguments.of), normalise(arguments.out)
    _refuse_inside(of, place)
    if open_store(place).stat(place) is not None:
        place = real(place)  # of a link to a file, the file; a pipe has none
    with waiting(f"reading {arguments.of}"):
        line = release_line_of(arguments)
        page = report_of(of, prefixes_of(arguments), uids_of(arguments), line)
    _refuse_other_file(place, page)
    open_store(place).put(place, page)
    answer = {"report": place, "bytes": len(page)}
    output.answer(answer, lambda: f"{printable(place)}: {human_bytes(len(page))}")


def _refuse_inside(of: str, place: str) -> None:
    """A snapshot is never written to, and Flink deletes a directory only if it finds nothing else in it."""
    if contains(real(of.removesuffix("/_metadata")), real(place)):
        raise RequestError(
            "the report must not lie inside of what it is about",
            path=place,
            expected=f"a file apart from {of}",
            advice="name another file: -o FILE",
        )


def _refuse_other_file(place: str, page: bytes) -> None:
    """A page takes the place of a page, and of nothing else that somebody may need."""
    store, beginning = open_store(place), page[: len("<!doctype html>")]
    there = store.stat(place)
    if there is not None and there.size and store.read(place, 0, min(there.size, len(beginning))) != beginning:
        raise RequestError(
            "there is another file where the report shall lie",
            path=place,
            expected="no file yet, or a report",
            advice="name another file: -o FILE; or if that one is not needed, delete it yourself",
        )
