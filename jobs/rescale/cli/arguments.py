"""Arguments that several commands share, and what they stand for."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from rescale.cli.completion import complete_operators
from rescale.flink.release_line import RELEASE_LINES, ReleaseLine
from rescale.insight.cluster import AMAZON, VARIABLE, Cluster, cluster_of_environment
from rescale.planning.asked.request import Files, Format, Request, make_request, parse_uids
from rescale.planning.prepare import Prepared, prepare
from rescale.planning.values.proof import Proof
from rescale.spark_master import is_master
from rescale.storage.locations import normalise
from rescale.surgery_options import SURGERY_OPTIONS, options_of_surgery, surgery_of
from rescale.text_files import read_text


def add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="a savepoint or checkpoint: a path, file: or s3:// (s3a://, s3p:// too)",
    )
    add_allow_prefix(parser)


def add_allow_prefix(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow-prefix",
        metavar="URI",
        action="append",
        default=[],
        help="accept files of the snapshot that lie below URI, too (repeatable)",
    )


def add_uids(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--uids",
        metavar="FILE",
        help="a file of lines `uid` or `operator-id name`: names of operators for a snapshot that holds only their ids",
    )


def add_for_flink(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for-flink",
        metavar="RELEASE",
        choices=[str(line) for line in RELEASE_LINES],
        help="also say what this release of Flink restores of the snapshot, and why not the rest: "
        + ", ".join(map(str, RELEASE_LINES)),
    )


def add_shape(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        metavar="URI",
        required=True,
        help="where the result goes: a directory that does not exist yet",
    )
    shape = parser.add_argument_group(
        "the new shape",
        "A number such as 6 is for all operators, visits=12 for the one that has the uid visits. Without a shape the "
        "result is a self-contained copy.",
    )
    parallelism = shape.add_argument(
        "--parallelism",
        metavar="[UID=]N",
        action="append",
        default=[],
        help="the new parallelism: N for every operator whose parallelism may change, UID=N for one (repeatable; uid "
        "or operator id)",
    )
    maximum = shape.add_argument(
        "--max-parallelism",
        metavar="[UID=]M",
        action="append",
        default=[],
        help="the new max parallelism (number of key groups): M for every operator but those that always run with one "
        "subtask, UID=M for one (repeatable). A divisor of the old one works for every type of key; for others the "
        "keys are hashed anew",
    )
    for action in (parallelism, maximum):
        complete_operators(action)
    shape.add_argument(
        "--format",
        choices=[one.value for one in Format],
        default=Format.KEEP.value,
        help="the kind of keyed state in the result. keep: as in the source. canonical: every state backend but ForSt "
        "restores it, record by record. rocksdb: RocksDB opens it as it is (default: %(default)s)",
    )
    shape.add_argument(
        "--files",
        choices=[one.value for one in Files],
        default=Files.COPY.value,
        help="RocksDB's files that the result takes unchanged. copy: they are copied. refer: the result points to them "
        "where they are, and the source must stay until the job has made a full checkpoint of its own "
        "(default: %(default)s)",
    )
    add_key_hash(parser)
    add_surgery(parser, "Operators are named as they are in SOURCE.")


def add_surgery(parser: argparse.ArgumentParser, description: str) -> None:
    surgery = parser.add_argument_group("a job that has changed", description)
    for option in SURGERY_OPTIONS:
        action = option.add_to(surgery)
        if option.after_operator is not None:
            complete_operators(action, option.after_operator)


def declared_options(arguments: argparse.Namespace) -> list[str]:
    """The options of `add_surgery` and `add_allow_prefix` for a step; `RequestError` if they make no sense."""
    return [*(f"--allow-prefix={prefix}" for prefix in arguments.allow_prefix), *options_of_surgery(arguments)]


def add_key_hash(parser: argparse.ArgumentParser) -> None:
    key_hash = parser.add_argument(
        "--key-hash",
        metavar="[UID=]HASH",
        action="append",
        default=[],
        help="how keys hash whose hashCode is your own: a formula such as 'objects-hash(a,b)'; or module:function, "
        "which turns a key's bytes into 32 bits, and is installed where Spark runs (repeatable). Every record is "
        "checked against it. Without it, common formulas are tried",
    )
    complete_operators(key_hash)


def add_proof(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--proof",
        choices=[one.value for one in Proof],
        help="how deep the result is compared with its source. records: every record. files: RocksDB directories "
        "made of the source's files are compared file by file, without a look at their rows, and what was copied "
        "within S3 by the store's checksums; all else by records. The certificate says which (default: records)",
    )


def proof_of(arguments: argparse.Namespace) -> Proof:
    """Of `add_proof`; whoever asked for none finds None in the arguments."""
    return Proof(arguments.proof or Proof.RECORDS)


def add_master(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--master",
        metavar="MASTER",
        type=_master,
        default="local[*]",
        help="where Spark runs: local[N] on N cores of this machine, local[*] on all of them, or a cluster: "
        "k8s://https://HOST:PORT, yarn, spark://HOST:PORT (default: %(default)s)",
    )


def _master(word: str) -> str:
    if not is_master(word):
        raise argparse.ArgumentTypeError(
            f"Spark has no master {word!r}: say local[N], local[*], k8s://https://HOST:PORT, yarn or spark://HOST:PORT"
        )
    return word


def add_cluster(parser: argparse.ArgumentParser) -> None:
    cluster = parser.add_argument_group(
        "a cluster on paper",
        "With any of these the plan says what the run would take there, for the state at hand and for 1, 10 and 100 "
        "TB: how long, what limits it, what is shuffled, requests to S3, scratch space and memory; and what does not "
        f"fit. Defaults can be set by the variable {VARIABLE}, such as 'executors=40 cores=8'.",
    )
    cluster.add_argument("--executors", metavar="N", help=f"how many (default: {Cluster.executors})")
    cluster.add_argument("--cores", metavar="N", help=f"of each executor (default: {Cluster.cores})")
    cluster.add_argument(
        "--bandwidth", metavar="SIZE", help="bytes a second of each executor, such as 1.2GB (default: 5 Gbit/s)"
    )
    cluster.add_argument("--scratch", metavar="SIZE", help="room on the disk of each executor, such as 200Gi")
    cluster.add_argument("--driver-memory", metavar="SIZE", help="what the driver's pod may have, such as 4Gi")
    cluster.add_argument(
        "--prices",
        metavar="WRITES,READS",
        help="dollars for a thousand requests to S3 that write or list, and that read (default: "
        f"{AMAZON.writes},{AMAZON.reads}, Amazon's in us-east-1)",
    )


def asked_cluster(arguments: argparse.Namespace) -> Cluster | None:
    """The mirror of `add_cluster`."""
    names = ("executors", "cores", "bandwidth", "scratch", "driver-memory", "prices")
    return cluster_of_environment(os.environ, {name: vars(arguments)[name.replace("-", "_")] for name in names})


def request_of(arguments: argparse.Namespace) -> Request:
    return make_request(
        arguments.source,
        arguments.target,
        arguments.parallelism,
        max_parallelism=arguments.max_parallelism,
        key_hash=arguments.key_hash,
        format=Format(arguments.format),
        files=Files(arguments.files),
        uids=uids_of(arguments),
        allow_prefixes=arguments.allow_prefix,
        surgery=surgery_of(arguments),
    )


def uids_of(arguments: argparse.Namespace) -> Sequence[tuple[str, str]]:
    return read_uids(arguments.uids) if arguments.uids else ()


def release_line_of(arguments: argparse.Namespace) -> ReleaseLine | None:
    """Of `add_for_flink`."""
    return next((line for line in RELEASE_LINES if str(line) == arguments.for_flink), None)


def read_uids(path: str) -> tuple[tuple[str, str], ...]:
    """(operator id, name) of every line of a text file, as `parse_uids` reads them."""
    return parse_uids(read_text(path, "list of uids").splitlines())


def prepared(arguments: argparse.Namespace) -> Prepared:
    return prepare(request_of(arguments))


def prefixes_of(arguments: argparse.Namespace) -> list[str]:
    return [normalise(prefix) for prefix in arguments.allow_prefix]
