"""Tells which state a proof compares, for a given plan."""

from __future__ import annotations

from rescale.plan.new_streams import CopiedKeyGroups
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof, refuse_impossible_proof
from rescale.storage.locations import is_s3
from rescale.text.advice import Advice, mention
from rescale.text.errors import RequestError


def proof_sentence(plan: Plan, proof: Proof) -> str | None:
    """Return a sentence for the user on what the proof covers; None for a proof by records.

    Raises `RequestError` if this `proof` is possible for no state of the plan. A proof by files is no error if it must
    compare every record after all: RocksDB rewrites files of every directory, or `_metadata` holds all copied state.
    """
    if proof is Proof.RECORDS:
        return None
    if proof is Proof.CHANGES:
        if plan.continued is None:
            raise RequestError(
                "a proof by changes needs the certificate of an earlier result, and this plan continues none",
                expected="a plan that continues a published result",
                advice=Advice("leave ", mention("proof"), " out, and all records are compared"),
            )
        return (
            "proof: changed rows are compared; unchanged rows rely on the certificate of the earlier result "
            f"{plan.continued.target}"
        )
    directory_count = sum(len(operator.databases) for operator in plan.operators)
    rewritten_count = sum(len(operator.compacted) for operator in plan.operators)
    are_both_in_s3 = is_s3(plan.target) and is_s3(plan.source)
    streams = [stream for operator in plan.operators for stream in operator.streams] if are_both_in_s3 else []
    copied_streams = [stream for stream in streams if isinstance(stream, CopiedKeyGroups)]
    refuse_impossible_proof(is_possible=directory_count + rewritten_count > 0 or bool(copied_streams))
    if not directory_count + rewritten_count:
        if all(stream.inline for stream in copied_streams):
            return "proof: all copied state is small enough for `_metadata`, so every record is compared"
        return "proof: copied state is compared by the store's checksums, and read where there are none"
    if not directory_count:
        return "proof: RocksDB rewrites some files of every directory, so every record is compared, not only files"
    directories_clause, their_or_its = (
        (f"{directory_count} RocksDB directories are", "their")
        if directory_count > 1
        else ("1 RocksDB directory is", "its")
    )
    rewritten_clause = (
        f"; {rewritten_count} with files that RocksDB rewrites, by all records" if rewritten_count else ""
    )
    return (
        f"proof: {directories_clause} compared by {their_or_its} files, "
        f"without reading {their_or_its} rows{rewritten_clause}"
    )
