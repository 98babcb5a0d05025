"""`rescale match`: which operators of a snapshot are which of a job's."""

from __future__ import annotations

import argparse
from contextlib import suppress

from rescale.cli.arguments import add_source, add_uids, prefixes_of, uids_of
from rescale.cli.output import Output
from rescale.cli.terminal import waiting
from rescale.errors import IntegrityError, RequestError
from rescale.flink.job_graph import read_job_graph
from rescale.planning.matching import Counterpart, match, of_graph, of_snapshot
from rescale.report.pages.matched import matched, matched_text
from rescale.snapshot.discovery import METADATA, find_metadata
from rescale.snapshot.given_names import unused_names
from rescale.snapshot.opening import METADATA_LIMIT, open_snapshot
from rescale.storage.locations import name, normalise
from rescale.storage.store import open_store

SUMMARY = "which operators of a snapshot are which of a changed job's"
DESCRIPTION = (
    "For a job whose operators have got other ids; without a uid an id changes with every operator before it. Proposes "
    "which operator of the snapshot is which of the job, and prints that as --rename options for plan and run. The job "
    "is a second snapshot, of the changed job started without state, which is compared by names, states and "
    "serializers; or what Flink's REST API tells of it: names, and the ids of the first operators of chains. What is "
    "not unique is said, and not proposed. Writes nothing. Exit code 0: every operator with state has its place; 4: "
    "some have none that is certain.\n\n"
    "  curl http://jobmanager:8081/jobs/JOB-ID > job.json"
)
EXAMPLE = "rescale match s3://flink/savepoint-1a2b --job job.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    parser.add_argument(
        "--job",
        metavar="GRAPH",
        required=True,
        help="a file with what Flink's REST API tells of the job (/jobs/:id, or /jars/:id/plan of a program that does "
        "not run yet), or a second savepoint or checkpoint",
    )
    add_uids(parser)


def execute(arguments: argparse.Namespace, output: Output) -> int:
    source, job, uids = normalise(arguments.source), normalise(arguments.job), uids_of(arguments)
    with waiting(f"reading {arguments.source}"):
        prefixes = prefixes_of(arguments)
        old = open_snapshot(source, prefixes, uids)
        of_plan = name(job) != METADATA and open_store(job).stat(job) is not None
        if not of_plan:
            _refuse_nothing(job)
        new = _of_plan(job, dict(uids)) if of_plan else of_snapshot(open_snapshot(job, prefixes, uids).operators)
    there = of_snapshot(old.operators)
    matching = match(there, new)
    unused = unused_names(uids, {one.operator_id for one in (*there, *new)})
    document = matched(old.directory, job, matching, of_plan=of_plan, unused_names=unused)
    output.answer(document, lambda: matched_text(document))
    return 0 if matching.certain else IntegrityError.exit_code


def _refuse_nothing(uri: str) -> None:
    """Whoever has misspelt the name of a file looks for no snapshot."""
    try:
        find_metadata(uri)
    except RequestError as error:
        raise RequestError(
            error.what,
            path=uri,
            expected="a file with what Flink's REST API tells of the job, or a snapshot's directory",
            advice=error.advice if _holds_files(uri) else "curl http://jobmanager:8081/jobs/JOB-ID > job.json",
        ) from None


def _holds_files(uri: str) -> bool:
    with suppress(RequestError):  # it is a pipe or a device
        return bool(open_store(uri).list(uri))
    return False


def _of_plan(uri: str, names: dict[str, str]) -> list[Counterpart]:
    data, _ = open_store(uri).read_all(uri, METADATA_LIMIT)
    return of_graph(read_job_graph(data, uri), names)
