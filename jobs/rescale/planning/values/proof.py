"""How deep a result is compared with its source. It is said when that is done, and no part of a plan or its digest."""

from __future__ import annotations

from enum import StrEnum

from rescale.errors import RequestError
from rescale.planning.values.new_streams import CopiedKeyGroups
from rescale.planning.values.operator_plan import OperatorPlan
from rescale.planning.values.plan import Plan
from rescale.storage.locations import is_s3


class Proof(StrEnum):
    """What is compared."""

    RECORDS = "records"
    """Every record and every element."""

    FILES = "files"
    """Of RocksDB directories that are made of the source's files: that they are these files; of what the store has
    checksums of on both sides, these; the rest as above."""


def refuse_files_in_vain(*, possible: bool) -> None:
    """`RequestError` where there is nothing that a proof by files can be about."""
    if not possible:
        raise RequestError(
            "there is nothing to prove by files",
            expected="an operator whose state lies in RocksDB directories, and stays there at its max parallelism; or "
            "key groups that are copied within one S3",
            found="none",
            advice="leave --proof out: every record is compared then",
        )


def how_proven(plan: Plan, proof: Proof) -> str | None:
    """What a proof by files will be of, for who asked for it; None for one of all records.

    `RequestError` where nothing can be proven by files, whatever these look like. Which files are taken as they are
    is another matter: where RocksDB must rewrite some in every directory, or where all that is copied is so little that
    it lies in `_metadata`, the proof is only deeper than asked for.
    """
    if proof is Proof.RECORDS:
        return None
    whole = sum(len(operator.databases) for operator in plan.operators)
    rewritten = sum(len(operator.compacted) for operator in plan.operators)
    in_s3 = is_s3(plan.target) and is_s3(plan.source)
    copied = [stream for operator in plan.operators for stream in _copied(operator)] if in_s3 else []
    refuse_files_in_vain(possible=whole + rewritten > 0 or bool(copied))
    if not whole + rewritten:
        if all(stream.inline for stream in copied):
            return "proof: what is copied is so little that it lies in `_metadata`, so every record is compared"
        return (
            "proof: what is copied is compared by checksums that the store computed itself, and read where it has none"
        )
    if not whole:
        return "proof: RocksDB rewrites some files of every directory, so every record is compared, not files alone"
    many, its = (f"{whole} RocksDB directories are", "their") if whole > 1 else ("1 RocksDB directory is", "its")
    go = "go by their" if rewritten > 1 else "goes by its"
    more = f"; {rewritten} that RocksDB rewrites in part {go} records" if rewritten else ""
    return f"proof: {many} compared by {its} files, and none of {its} rows is read{more}"


def _copied(operator: OperatorPlan) -> list[CopiedKeyGroups]:
    return [stream for stream in operator.streams if isinstance(stream, CopiedKeyGroups)]
