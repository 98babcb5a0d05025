"""`rescale match`: match the operators of a snapshot with those of a changed job."""

from __future__ import annotations

import argparse
from contextlib import suppress

from rescale.cli.arguments import add_request_options, add_source, given_uids, moves_of, prefixes_of
from rescale.cli.output import Output
from rescale.cli.terminal import waiting
from rescale.flink.job_graph import read_job_graph
from rescale.options.profiles import add_profiles
from rescale.planning.matching import Counterpart, counterparts_of_graph, counterparts_of_snapshot, match
from rescale.report.pages.matched import matched_page
from rescale.snapshot.reading.discovery import METADATA, find_metadata
from rescale.snapshot.reading.given_names import unused_names
from rescale.snapshot.reading.opening import METADATA_LIMIT_BYTES, open_snapshot
from rescale.storage.locations import name, normalise
from rescale.storage.store import exists, open_store
from rescale.text.errors import IntegrityError, RequestError

SUMMARY = "match the operators of a snapshot with those of a changed job"
DESCRIPTION = (
    "For a job whose operators have new ids: Flink derives the id of an operator without a uid from the operators "
    "before it. Proposes which operator of the snapshot is which operator of the job, and prints the result as "
    "--rename options for plan and run. The job is given as a second snapshot, which the changed job wrote after a "
    "start without state; operators are then matched by names, states and serializers. Or the job is given as the "
    "answer of Flink's REST API, which has the names of all operators, but only the ids of those that begin a chain. "
    "Ambiguous matches are listed but not proposed. Writes nothing. Exit code 0: every operator with state "
    "has a match; 4: some have no certain match.\n\n"
    "  curl http://jobmanager:8081/jobs/JOB-ID > job.json"
)
EXAMPLE = "rescale match s3://flink/savepoint-1a2b --job job.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    parser.add_argument(
        "--job",
        metavar="GRAPH",
        required=True,
        help="a file with the answer of Flink's REST API for the job (/jobs/:id, or /jars/:id/plan for a program that "
        "does not run yet), or a second savepoint or checkpoint",
    )
    add_request_options(parser, "match")
    add_profiles(parser, "source")


def execute(arguments: argparse.Namespace, output: Output) -> int:
    source, job, uids = normalise(arguments.source), normalise(arguments.job), given_uids(arguments)
    with waiting(f"reading {arguments.source}"):
        allowed_prefixes = prefixes_of(arguments)
        moves = moves_of(arguments)
        source_snapshot = open_snapshot(source, allowed_prefixes, uids, moves=moves)
        is_graph = name(job) != METADATA and exists(job)
        if not is_graph:
            _refuse_missing_job(job)
        new_counterparts = (
            _read_graph(job, dict(uids))
            if is_graph
            else counterparts_of_snapshot(open_snapshot(job, allowed_prefixes, uids, moves=moves).operators)
        )
    snapshot_counterparts = counterparts_of_snapshot(source_snapshot.operators)
    unused_uids = unused_names(
        uids, {counterpart.operator_id for counterpart in (*snapshot_counterparts, *new_counterparts)}
    )
    document = match(
        source_snapshot.directory,
        job,
        snapshot_counterparts,
        new_counterparts,
        is_of_plan=is_graph,
        unused_names=unused_uids,
    )
    output.answer_page(document, matched_page)
    return 0 if document.certain else IntegrityError.exit_code


def _refuse_missing_job(uri: str) -> None:
    """Raise `RequestError` if there is neither a file nor a snapshot; the user may have misspelt the name of a file."""
    try:
        find_metadata(uri)
    except RequestError as error:
        raise RequestError(
            error.what,
            path=uri,
            expected="a file with the answer of Flink's REST API for the job, or the directory of a snapshot",
            advice=error.advice if _holds_files(uri) else "curl http://jobmanager:8081/jobs/JOB-ID > job.json",
        ) from None


def _holds_files(uri: str) -> bool:
    with suppress(RequestError):  # `uri` may be a pipe or a device
        return bool(open_store(uri).list(uri))
    return False


def _read_graph(uri: str, name_by_id: dict[str, str]) -> list[Counterpart]:
    data, _ = open_store(uri).read_all(uri, METADATA_LIMIT_BYTES)
    return counterparts_of_graph(read_job_graph(data, uri), name_by_id)
