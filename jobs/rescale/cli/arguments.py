"""Arguments that several commands share, and the functions that read their values."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rescale.cli.completion import complete_operators
from rescale.flink.release_line import RELEASE_LINES, ReleaseLine
from rescale.insight.cluster import CLUSTER_VARIABLE, Cluster, cluster_of_environment
from rescale.options.command_line import add_options, values_of
from rescale.options.option import HelpGroup
from rescale.options.rows import option
from rescale.options.spark_master import MASTER_FORMS, is_master_url
from rescale.options.text_files import read_text
from rescale.planning.continuing import continued_plan, refuse_format
from rescale.planning.prepare import PreparedPlan, prepare
from rescale.planning.request.request import Request, parse_uids, request_of_values
from rescale.runstate.claim import source_of_run
from rescale.runstate.pinned_snapshots import open_base
from rescale.snapshot.moves import Move, parse_moves
from rescale.storage.locations import normalise

_SHAPE_HELP = (
    "A number such as 6 applies to all operators, visits=12 to the operator with the uid visits. Without a shape, the "
    "result is a self-contained copy."
)


def add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="a savepoint or checkpoint: a path, file: or s3:// (s3a://, s3p:// too)",
    )


def add_request_options(
    parser: argparse.ArgumentParser, command: str, changed_job_help: str = "", *, with_shape: bool = False
) -> None:
    """Add the options of a request to a command; `changed_job_help` describes the options for changed jobs."""
    groups = {HelpGroup.SHAPE: _SHAPE_HELP} if with_shape else {}
    groups |= {HelpGroup.CHANGED_JOB: changed_job_help} if changed_job_help else {}
    add_options(parser, command, groups, complete_operators)


def add_for_flink(parser: argparse.ArgumentParser) -> None:
    """Add `--for-flink`, which `release_line_of` reads."""
    parser.add_argument(
        "--for-flink",
        metavar="RELEASE",
        choices=[str(line) for line in RELEASE_LINES],
        help="also show which state this release of Flink restores, and why it refuses the rest. RELEASE is one of "
        + ", ".join(map(str, RELEASE_LINES)),
    )


def add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        metavar="URI",
        required=True,
        help="directory of the result, which must not exist yet",
    )


def add_master(parser: argparse.ArgumentParser) -> None:
    """Add `--master`: processes of this machine, or a Spark master."""
    parser.add_argument(
        "--master",
        metavar="MASTER",
        type=_checked_master,
        default="local[*]",
        help="where the work runs: local[N]: in N processes on this machine; local[*]: in one for each core; or on a "
        "Spark cluster, which needs Java here: k8s://https://HOST:PORT, yarn, spark://HOST:PORT (default: %(default)s)",
    )


def _checked_master(word: str) -> str:
    if not is_master_url(word):
        raise argparse.ArgumentTypeError(f"{word!r} is not a Spark master: expected {MASTER_FORMS}")
    return word


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe a cluster, which `cluster_of` reads."""
    group = parser.add_argument_group(
        "estimate for a cluster",
        "With any of these options, the plan estimates a run on that cluster: its duration, the limiting resource, the "
        "shuffled bytes, requests to S3, scratch space and memory; and it warns of what does not fit. "
        f"The variable {CLUSTER_VARIABLE} sets defaults, such as 'executors=40 cores=8'.",
    )
    group.add_argument("--executors", metavar="N", help=f"number of executors (default: {Cluster.executors})")
    group.add_argument("--cores", metavar="N", help=f"cores of each executor (default: {Cluster.cores})")
    group.add_argument(
        "--bandwidth",
        metavar="SIZE",
        help="network bandwidth of each executor in bytes per second, such as 1.2GB (default: 5 Gbit/s)",
    )
    group.add_argument("--scratch", metavar="SIZE", help="disk space of each executor, such as 200Gi")
    group.add_argument("--driver-memory", metavar="SIZE", help="memory limit of the driver's pod, such as 4Gi")


def cluster_of(arguments: argparse.Namespace) -> Cluster | None:
    """Return the cluster that the options of `add_cluster` describe, or None without any of them."""
    option_names = ("executors", "cores", "bandwidth", "scratch", "driver-memory")
    return cluster_of_environment(os.environ, {name: vars(arguments)[name.replace("-", "_")] for name in option_names})


def request_of(arguments: argparse.Namespace) -> Request:
    return request_of_values(arguments.source, arguments.target, values_of(arguments, "plan"))


def given_uids(arguments: argparse.Namespace) -> Sequence[tuple[str, str]]:
    """Return (operator id, name) for every line of the file that `--uids` names."""
    return read_uids(arguments.uids) if arguments.uids else ()


def release_line_of(arguments: argparse.Namespace) -> ReleaseLine | None:
    """Return the Flink release line that `--for-flink` names, or None without the option."""
    return next((line for line in RELEASE_LINES if str(line) == arguments.for_flink), None)


def read_uids(path: str) -> tuple[tuple[str, str], ...]:
    """Return (operator id, name) for every line of a text file (`parse_uids`)."""
    return parse_uids(read_text(path, option("uids").file_noun).splitlines())


def add_base(parser: argparse.ArgumentParser) -> None:
    """Add `--base`, which `prepared_plan_of` reads."""
    parser.add_argument(
        "--base",
        metavar="URI",
        help="continue this published result of an earlier checkpoint of the same job, in the same shape: only rows "
        "that have changed since that checkpoint, which must still exist, are moved. For incremental RocksDB "
        "checkpoints and a change of the max parallelism; the new result needs no file of the earlier one",
    )


def prepared_plan_of(arguments: argparse.Namespace, job: Mapping[str, str] | None = None) -> PreparedPlan:
    """Return the plan of the command's request; with `--base`, a plan that continues the result that `--base` names.

    `job` names the Kubernetes Job of which this process is a try. If an earlier try of the Job has claimed the target,
    the plan has the source of that try.
    """
    request = request_of(arguments)
    if job is not None:
        request = replace(request, source=source_of_run(request.source, request.target, job))
    if arguments.base is None:
        return prepare(request)
    refuse_format(request)
    base = open_base(arguments.base, request.allow_prefixes)
    full_plan = prepare(request)
    return full_plan._replace(plan=continued_plan(full_plan.plan, full_plan.snapshot, base))


def prefixes_of(arguments: argparse.Namespace) -> list[str]:
    return [normalise(prefix) for prefix in arguments.allow_prefix]


def moves_of(arguments: argparse.Namespace) -> tuple[Move, ...]:
    """Return the moves of `--moved`. Raises `RequestError` if one cannot be parsed."""
    return parse_moves(arguments.moved)
