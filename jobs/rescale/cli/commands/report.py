"""`rescale report`: write an HTML report on a snapshot, a plan or a run."""

from __future__ import annotations

import argparse

from rescale.cli.arguments import add_for_flink, add_request_options, given_uids, moves_of, prefixes_of, release_line_of
from rescale.cli.output import Output
from rescale.cli.terminal import waiting
from rescale.options.profiles import add_profiles
from rescale.report.documents import WrittenReport
from rescale.report.stored import report_of
from rescale.storage.locations import contains, join, normalise, parent, resolve_links
from rescale.storage.store import exists, open_store
from rescale.text.errors import RequestError
from rescale.text.names import printable
from rescale.text.units import human_bytes

SUMMARY = "write an HTML report on a snapshot, a plan or a run"
DESCRIPTION = (
    "Writes one HTML file with charts of key groups, load, operator state, Kafka offsets and costs, and with the "
    "certificate of a run. It needs no network and no scripts. A run writes such a report beside its target."
)
_REPORT_MARK = b"sha256-"
"""Bytes near the beginning of every report: the start of a hash in its content security policy."""

EXAMPLE = "rescale report s3://flink/new -o new.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "subject",
        metavar="SOURCE|PLAN|TARGET",
        help="a savepoint or checkpoint; the file of a plan (<target>.rescale/plan-….json); or the target of a run",
    )
    parser.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        default="report.html",
        help="file of the report: a path or s3:// (default: %(default)s)",
    )
    add_request_options(parser, "report")
    add_for_flink(parser)
    add_profiles(parser, "subject", ("subject", "out"))


def execute(arguments: argparse.Namespace, output: Output) -> None:
    subject, place = normalise(arguments.subject), normalise(arguments.out)
    _refuse_report_in_snapshot(subject, place)
    if exists(place):
        # The report replaces the file that a link leads to, not the link; a pipe is used as it is.
        place = resolve_links(place)
    with waiting(f"reading {arguments.subject}"):
        release_line = release_line_of(arguments)
        page = report_of(subject, prefixes_of(arguments), given_uids(arguments), release_line, moves_of(arguments))
    _refuse_overwriting(place, page)
    open_store(place).put(place, page)
    output.answer(WrittenReport(place, len(page)), lambda: f"{printable(place)}: {human_bytes(len(page))}")


def _refuse_report_in_snapshot(subject: str, place: str) -> None:
    """Raise `RequestError` for a report inside a snapshot, whose directory Flink then could not delete."""
    metadata = join(parent(resolve_links(place)), "_metadata")
    if contains(resolve_links(subject.removesuffix("/_metadata")), resolve_links(place)) or exists(metadata):
        raise RequestError(
            "a report must not be inside a snapshot, nor inside what it is about",
            path=place,
            expected=f"a file outside {subject}",
            advice="name another file: -o FILE",
        )


def _refuse_overwriting(place: str, page: bytes) -> None:
    """Raise `RequestError` if the report would overwrite a file that is not a report."""
    store, page_beginning = open_store(place), page.partition(_REPORT_MARK)[0]
    existing_pin = store.stat(place)
    if (
        existing_pin is not None
        and existing_pin.size
        and store.read(place, 0, min(existing_pin.size, len(page_beginning))) != page_beginning
    ):
        raise RequestError(
            "the report would overwrite another file",
            path=place,
            expected="no file yet, or a report",
            advice="name another file: -o FILE; or delete that file yourself if it is not needed",
        )
