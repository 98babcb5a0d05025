"""The certificate: what was compared, and the SHA-256 of the one candidate that may be published for it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from rescale.execution.validation.record_proof import RecordProof
from rescale.execution.validation.validation import OperatorProof
from rescale.flink.serializers.formulas import KNOWN
from rescale.flink.start import start_of
from rescale.planning.plan import Plan
from rescale.snapshot.model import Snapshot
from rescale.storage.store import open_store

_CLAIM_OF_RECORDS = (
    "where the max parallelism changed, that holds of every record, and every record whose key hashes in a way that is "
    "given lies in the key group of that hash, in the source under the old maximum and in the result under the new one"
)
_LIMITS = (
    "a rule for hashes that is wrong for k keys only would not be noticed with a probability of (old maximum)^-k; "
    "rules of Java's and Flink's own types are known, formulas found for a user's class are tested and not known"
)

_CLAIM = (
    "every key group, list element, union element and broadcast copy of the source was read from storage and is in "
    "the result, with the subtask that Flink will give it to"
)


def certificate_of(
    source: Snapshot, target: str, candidate: bytes, proofs: Sequence[OperatorProof], plan: Plan | None
) -> dict[str, Any]:
    """As JSON values; the same source and result give the same certificate."""
    rekeyed = any(proof.records for proof in proofs)
    return {
        "verdict": "complete",
        "proves": "; ".join([_CLAIM, _CLAIM_OF_RECORDS] if rekeyed else [_CLAIM]),
        "does_not_prove": _LIMITS if rekeyed else None,
        "digests": "sums mod 2^128 of 128-bit murmur3 digests of key groups and elements",
        "source": source.directory,
        "source_metadata_sha256": source.metadata_sha256,
        "target": target,
        "candidate_sha256": hashlib.sha256(candidate).hexdigest(),
        "plan": plan.digest if plan else None,
        "warnings": list(plan.warnings) if plan else [],
        "bytes": sum(proof.bytes for proof in proofs),
        "operators": [_proof(proof) for proof in proofs],
        "start": start_of(
            target,
            [(operator.entry.parallelism, operator.entry.max_parallelism) for operator in source.operators],
            [(proof.parallelism, proof.max_parallelism) for proof in proofs],
        ).command,
    }


def _proof(proof: OperatorProof) -> dict[str, Any]:
    return {**proof._asdict(), "records": _records(proof.records) if proof.records is not None else None}


def _records(proof: RecordProof) -> dict[str, Any]:
    return {
        "compared": sum(digest.records for digest in proof.states.values()),
        "key_hash": proof.key_hash,
        "hash_is": None if proof.key_hash is None else "known" if proof.key_hash == KNOWN else "tested, not known",
        "distinct_keys_at_least": proof.keys,
        "states": {
            state: {"records": digest.records, "digest": f"{digest.digest:032x}"}
            for state, digest in proof.states.items()
        },
    }


def write_certificate(plan: Plan, certificate: dict[str, Any]) -> None:
    uri = plan.places.certificate
    open_store(uri).put(uri, msgspec.json.format(msgspec.json.encode(certificate), indent=2))
