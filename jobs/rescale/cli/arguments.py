"""Arguments that several commands share, and what they stand for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from rescale.errors import RequestError
from rescale.planning.prepare import Prepared, prepare
from rescale.planning.proof import Proof
from rescale.planning.request import Files, Format, Request, make_request, parse_uids
from rescale.storage.locations import normalise


class Parser(argparse.ArgumentParser):
    """A parser whose errors are `RequestError`s, so that they can be answered in JSON too; nothing is abbreviated."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(allow_abbrev=False, **arguments)

    def error(self, message: str) -> NoReturn:
        raise RequestError(message, advice=f"see {self.prog} --help")


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
    shape.add_argument(
        "--parallelism",
        metavar="[UID=]N",
        action="append",
        default=[],
        help="the new parallelism: N for every operator whose parallelism may change, UID=N for one (repeatable; uid "
        "or operator id)",
    )
    shape.add_argument(
        "--max-parallelism",
        metavar="[UID=]M",
        action="append",
        default=[],
        help="the new max parallelism (number of key groups): M for every operator, UID=M for one (repeatable). A "
        "divisor of the old one works for every type of key; for others the keys are hashed anew",
    )
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
        "where they are, so that the source must stay until the job has made a checkpoint of its own (default: "
        "%(default)s)",
    )
    add_key_hash(parser)


def add_key_hash(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--key-hash",
        metavar="[UID=]HASH",
        action="append",
        default=[],
        help="how keys hash whose hashCode is your own: a formula such as 'objects-hash(a,b)', or module:function from "
        "the key's bytes to 32 bits, where the module is installed where Spark runs (repeatable). Every record is "
        "checked against it. Without it, common formulas are tried",
    )


def add_proof(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--proof",
        choices=[one.value for one in Proof],
        default=Proof.RECORDS.value,
        help="how deep the result is compared with its source: every record; or files, where RocksDB directories are "
        "made of the source's: that these are the same or equal copies, and hide all that is not the subtask's, with "
        "no look at any row (all else goes by records, too). The certificate says which (default: %(default)s)",
    )


def add_master(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--master", metavar="MASTER", default="local[*]", help="where Spark runs (default: %(default)s)"
    )


def request_of(arguments: argparse.Namespace) -> Request:
    return make_request(
        arguments.source,
        arguments.target,
        arguments.parallelism,
        arguments.allow_prefix,
        uids_of(arguments),
        arguments.max_parallelism,
        arguments.key_hash,
        Format(arguments.format),
        Files(arguments.files),
    )


def uids_of(arguments: argparse.Namespace) -> Sequence[tuple[str, str]]:
    return read_uids(arguments.uids) if arguments.uids else ()


def read_uids(path: str) -> tuple[tuple[str, str], ...]:
    """(operator id, name) of every line of a text file, as `parse_uids` reads them."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RequestError(f"the list of uids cannot be read: {reason}", path=path) from None
    return parse_uids(lines)


def prepared(arguments: argparse.Namespace) -> Prepared:
    return prepare(request_of(arguments))


def prefixes_of(arguments: argparse.Namespace) -> list[str]:
    return [normalise(prefix) for prefix in arguments.allow_prefix]
