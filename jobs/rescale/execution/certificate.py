"""The certificate: what was compared, and the SHA-256 of the one candidate that may be published for it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from rescale.execution.validation import OperatorProof
from rescale.flink.start import start_command
from rescale.planning.plan import Plan
from rescale.planning.snapshot import Snapshot
from rescale.storage.store import open_store

_CLAIM = (
    "every key group, list element, union element and broadcast copy of the source was read from storage and is in "
    "the result, with the subtask that Flink will give it to"
)


def certificate_of(
    source: Snapshot, target: str, candidate: bytes, proofs: Sequence[OperatorProof], plan: Plan | None
) -> dict[str, Any]:
    """As JSON values; the same source and result give the same certificate."""
    return {
        "verdict": "complete",
        "proves": _CLAIM,
        "digests": "sums mod 2^128 of 128-bit murmur3 digests of key groups and elements",
        "source": source.directory,
        "source_metadata_sha256": source.metadata_sha256,
        "target": target,
        "candidate_sha256": hashlib.sha256(candidate).hexdigest(),
        "plan": plan.digest if plan else None,
        "warnings": list(plan.warnings) if plan else [],
        "bytes": sum(proof.bytes for proof in proofs),
        "operators": [proof._asdict() for proof in proofs],
        "start": start_command(target, [(proof.parallelism, proof.max_parallelism) for proof in proofs]),
    }


def write_certificate(plan: Plan, certificate: dict[str, Any]) -> None:
    uri = plan.places.certificate
    open_store(uri).put(uri, msgspec.json.format(msgspec.json.encode(certificate), indent=2))
