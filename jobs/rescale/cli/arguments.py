"""Arguments that several commands share, and what they stand for."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from rescale.cli.completion import complete_operators
from rescale.errors import RequestError
from rescale.flink.release_line import RELEASE_LINES, ReleaseLine
from rescale.insight.cluster import AMAZON, VARIABLE, Cluster, cluster_of_environment
from rescale.planning.asked.kafka_words import parse_offsets
from rescale.planning.asked.request import Files, Format, Request, make_request, parse_uids
from rescale.planning.asked.surgery_words import SurgeryWords, parse_surgery
from rescale.planning.prepare import Prepared, prepare
from rescale.planning.values.proof import Proof
from rescale.spark_master import is_master
from rescale.storage.locations import normalise


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
        help="files of the snapshot may lie below URI too (repeatable)",
    )


def add_uids(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--uids",
        metavar="FILE",
        help="lines `uid` or `operator-id name`: what to call operators by, where a snapshot holds only their ids",
    )


def add_for_flink(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for-flink",
        metavar="RELEASE",
        choices=[str(line) for line in RELEASE_LINES],
        help="also say what this release line of Flink would restore of a snapshot, and why not all: one of "
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
        "A number such as 6 is for all operators, visits=12 for the one that has the uid visits. Without any the "
        "shape stays, and the result is a self-contained copy.",
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
        help="the new max parallelism (number of key groups): M for every operator, UID=M for one (repeatable). A "
        "divisor of the old one works for every type of key; for others the keys are hashed anew",
    )
    for action in (parallelism, maximum):
        complete_operators(action)
    shape.add_argument(
        "--format",
        choices=[one.value for one in Format],
        default=Format.KEEP.value,
        help="the kind of keyed state in the result: the source's; canonical, which every state backend but ForSt "
        "restores, record by record; or RocksDB's own, which RocksDB opens as it is (default: %(default)s)",
    )
    shape.add_argument(
        "--files",
        choices=[one.value for one in Files],
        default=Files.COPY.value,
        help="what becomes of the files of RocksDB that the result takes as they are: they are copied, or referred to "
        "where they are, so that the source must stay until the job has made a full checkpoint of its own "
        "(default: %(default)s)",
    )
    add_key_hash(parser)
    add_surgery(parser, "For a job that has changed. In all options operators are named as they are in SOURCE.")


def add_surgery(parser: argparse.ArgumentParser, description: str) -> None:
    """What the result has otherwise than the source, besides its shape."""
    surgery = parser.add_argument_group("other operators", description)
    rename = surgery.add_argument(
        "--rename",
        metavar="OLD=NEW",
        action="append",
        default=[],
        help="all state of the operator OLD is that of NEW: uids, whose ids are computed, or operator ids of 32 hex "
        "digits (repeatable)",
    )
    complete_operators(rename)
    drop = surgery.add_argument(
        "--drop",
        metavar="UID",
        action="append",
        default=[],
        help="the operator is left out, and all of its state (repeatable; uid or operator id)",
    )
    complete_operators(drop, end="")
    surgery.add_argument(
        "--kafka-offsets",
        metavar="FILE",
        help="where Kafka sources read on: rows of topic, partition and offset in CSV or JSON, as rescale inspect "
        "--kafka-offsets prints them; the offset is that of the next record, or earliest, latest, committed, or drop "
        "to leave the partition out. What FILE does not name stays",
    )
    surgery.add_argument(
        "--kafka-topic",
        metavar="OLD=NEW",
        action="append",
        default=[],
        help="the offsets of the topic OLD are those of NEW, which has the same records at the same offsets "
        "(repeatable)",
    )
    source = surgery.add_argument(
        "--kafka-source",
        metavar="OLD[=NEW]",
        action="append",
        default=[],
        help="the FlinkKafkaConsumer OLD of Flink 1.x is the KafkaSource NEW, which reads on where it stood: its "
        "offsets become splits and the enumerator's state; uids or operator ids, without NEW the name stays "
        "(repeatable)",
    )
    complete_operators(source)
    state = surgery.add_argument(
        "--drop-state",
        metavar="UID:NAME",
        action="append",
        default=[],
        help="one state of the operator is left out, keyed or operator state, timers too (repeatable). Where it is "
        "keyed, the operator's records are read and written anew, at any parallelism",
    )
    complete_operators(state, end=":")


def add_key_hash(parser: argparse.ArgumentParser) -> None:
    key_hash = parser.add_argument(
        "--key-hash",
        metavar="[UID=]HASH",
        action="append",
        default=[],
        help="how keys hash whose hashCode is your own: a formula such as 'objects-hash(a,b)', or module:function from "
        "the key's bytes to 32 bits, where the module is installed where Spark runs (repeatable). Every record is "
        "checked against it. Without it, common formulas are tried",
    )
    complete_operators(key_hash)


def add_proof(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--proof",
        choices=[one.value for one in Proof],
        default=Proof.RECORDS.value,
        help="how deep the result is compared with its source: every record; or files: of RocksDB directories that are "
        "made of the source's that they are these files, or equal copies, and hide all that is not the subtask's, with "
        "no look at any row; of what was copied within S3 the checksums that the store has of both sides; of all else "
        "records. The certificate says which (default: %(default)s)",
    )


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
        "With any of these the plan says what it would take there, for the state at hand and for 1, 10 and 100 TB: how "
        "long, what binds, what is shuffled, requests to S3, scratch space and memory; and what does not fit. What is "
        f"not said is as {VARIABLE} has it, such as 'executors=40 cores=8', or else the default.",
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
        surgery=_surgery_of(arguments),
    )


def _surgery_of(arguments: argparse.Namespace) -> SurgeryWords:
    return parse_surgery(
        renames=arguments.rename,
        drops=arguments.drop,
        state_drops=arguments.drop_state,
        kafka_offsets=_read_offsets(arguments.kafka_offsets) if arguments.kafka_offsets else "",
        kafka_topics=arguments.kafka_topic,
        kafka_sources=arguments.kafka_source,
    )


def surgery_options(arguments: argparse.Namespace) -> list[str]:
    """The options of `add_surgery` and `add_allow_prefix` for a step; `RequestError` if they make no sense."""
    asked = _surgery_of(arguments)
    asked.kafka.with_renames(asked.renames)
    offsets = [Path(arguments.kafka_offsets).absolute()] if arguments.kafka_offsets else []
    options = {
        "--allow-prefix": arguments.allow_prefix,
        "--rename": arguments.rename,
        "--drop": arguments.drop,
        "--drop-state": arguments.drop_state,
        "--kafka-offsets": offsets,
        "--kafka-topic": arguments.kafka_topic,
        "--kafka-source": arguments.kafka_source,
    }
    return [f"{option}={value}" for option, values in options.items() for value in values]


def uids_of(arguments: argparse.Namespace) -> Sequence[tuple[str, str]]:
    return read_uids(arguments.uids) if arguments.uids else ()


def line_of(arguments: argparse.Namespace) -> ReleaseLine | None:
    """Of `add_for_flink`."""
    return next((line for line in RELEASE_LINES if str(line) == arguments.for_flink), None)


def read_uids(path: str) -> tuple[tuple[str, str], ...]:
    """(operator id, name) of every line of a text file, as `parse_uids` reads them."""
    return parse_uids(read_text(path, "list of uids").splitlines())


def _read_offsets(path: str) -> str:
    """A file of Kafka offsets that was named; `RequestError` if it makes no sense, or names no partition."""
    text = read_text(path, "Kafka offsets")
    if not parse_offsets(text):
        raise RequestError(
            "the file of Kafka offsets names no partition",
            path=path,
            expected="a row of topic, partition and offset for each partition that shall be read from elsewhere",
            advice="leave --kafka-offsets out if all shall stay as it is; rescale inspect SOURCE --kafka-offsets csv "
            "prints what is there",
        )
    return text


def read_text(path: str, what: str) -> str:
    """A text file that was named; `RequestError` if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise RequestError(
            f"the {what} cannot be read: {error.strerror}", path=path, advice="name a file that is there"
        ) from None
    except UnicodeError as error:
        raise RequestError(
            f"the {what} cannot be read: it is no text in UTF-8",
            path=path,
            found=error,
            advice="name another file, or save this one as text in UTF-8",
        ) from None


def prepared(arguments: argparse.Namespace) -> Prepared:
    return prepare(request_of(arguments))


def prefixes_of(arguments: argparse.Namespace) -> list[str]:
    return [normalise(prefix) for prefix in arguments.allow_prefix]
