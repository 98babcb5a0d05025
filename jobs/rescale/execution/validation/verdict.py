"""What was compared, as the certificate says it."""

from __future__ import annotations

from collections.abc import Sequence

from rescale.execution.validation.record_proof import RecordProof
from rescale.execution.validation.validation import OperatorProof
from rescale.flink.serializers.formulas import KNOWN
from rescale.flink.start import start_of
from rescale.planning.plan import Plan
from rescale.snapshot.model import Snapshot
from rescale.storage.locations import contains
from rescale.target.certificate import COMPLETE, Certificate, CertifiedOperator, CertifiedRecords, CertifiedState
from rescale.target.certified_files import certified_files

_CLAIM_OF_RECORDS = (
    "where the max parallelism changed, that holds of every record, and every record whose key hashes in a way that is "
    "given lies in the key group of that hash, in the source under the old maximum and in the result under the new one"
)
_OF_RULES = (
    "a rule for hashes that is wrong for k keys only would not be noticed with a probability of (old maximum)^-k; "
    "rules of Java's and Flink's own types are known, formulas found for a user's class are tested and not known"
)

_OF_LOCAL_FILES = (
    "a local file of the source that changed with its size and modification time kept, after it was planned with and "
    "before it was moved, would not be noticed"
)
_UNBOUND = (
    "no certificate lies beside the result, so what in its metadata follows from the request alone was not compared: "
    "the shape of operators without state, the names of state that lies inline"
)

_OF_REFERENCES = (
    "the result refers to files of the source, and is as good as these are: the source must stay as it is until the "
    "job has made a full checkpoint of its own"
)

_CLAIM = (
    "every key group, list element, union element and broadcast copy of the source was read from storage and is in "
    "the result, with the subtask that Flink will give it to"
)


def certificate_of(
    source: Snapshot, result: Snapshot, proofs: Sequence[OperatorProof], plan: Plan | None, *, bound: bool
) -> Certificate:
    """The same source and result give the same certificate; `result` is what the candidate makes of the target.

    It was looked at before its bytes were read and compared, and is looked at again. `bound` says whether its metadata
    was made here from a plan, or compared with a certificate.
    """
    rekeyed = any(proof.records for proof in proofs)
    local = any(pin.mtime_ns is not None for _, pin in source.files)
    limits = [(_OF_RULES, rekeyed), (_OF_LOCAL_FILES, local), (_UNBOUND, not bound)]
    limits.append((_OF_REFERENCES, any(not contains(result.directory, uri) for uri, _ in result.files[1:])))
    return Certificate(
        verdict=COMPLETE,
        proves="; ".join([_CLAIM, _CLAIM_OF_RECORDS] if rekeyed else [_CLAIM]),
        does_not_prove="; ".join(sentence for sentence, holds in limits if holds) or None,
        digests="sums mod 2^128 of 128-bit murmur3 digests of key groups and elements",
        source=source.directory,
        source_metadata_sha256=source.metadata_sha256,
        target=result.directory,
        candidate_sha256=result.metadata_sha256,
        plan=plan.digest if plan else None,
        warnings=plan.warnings if plan else (),
        bytes=sum(proof.bytes for proof in proofs),
        operators=tuple(map(_operator, proofs)),
        files=certified_files(result.directory, result.files[1:]),
        start=start_of(
            result.directory,
            [(operator.entry.parallelism, operator.entry.max_parallelism) for operator in source.operators],
            [(proof.parallelism, proof.max_parallelism) for proof in proofs],
        ).command,
    )


def _operator(proof: OperatorProof) -> CertifiedOperator:
    records = _records(proof.records) if proof.records is not None else None
    return CertifiedOperator(**{**proof._asdict(), "records": records})


def _records(proof: RecordProof) -> CertifiedRecords:
    return CertifiedRecords(
        compared=sum(digest.records for digest in proof.states.values()),
        key_hash=proof.key_hash,
        hash_is=None if proof.key_hash is None else "known" if proof.key_hash == KNOWN else "tested, not known",
        distinct_keys_at_least=proof.keys,
        states={
            state: CertifiedState(digest.records, f"{digest.digest:032x}") for state, digest in proof.states.items()
        },
    )
