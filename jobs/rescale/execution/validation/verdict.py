"""What was compared, as the certificate says it."""

from __future__ import annotations

from collections.abc import Sequence

from rescale.execution.validation.coverage import is_compared_by_record
from rescale.flink.start import start_of
from rescale.planning.values.plan import Plan
from rescale.planning.values.proof import Proof
from rescale.snapshot.model import Snapshot
from rescale.snapshot.surgery import NO_SURGERY, Surgery
from rescale.storage.locations import contains
from rescale.target.certificate import COMPLETE, Certificate, CertifiedOperator
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

_OF_FILES = (
    "no row was read of the RocksDB directories that were compared by their files: that these files can be read, hold "
    "what Flink wrote, and begin and end with the keys that their MANIFESTs tell, by which a job finds a row and files "
    "are dealt to subtasks, is taken from the source as it is (rescale validate --proof records reads every row)"
)
_OF_UNCHANGED = (
    "no row was read of the RocksDB directories that stay as they are with their subtasks, as is so to any depth: that "
    "these files can be read, and are as their MANIFESTs tell, is taken from the source as it is"
)
_OF_FILES_NOT_READ = (
    "files that the result refers to were not read: they are the source's own by their place, size, and ETag or "
    "modification time"
)

_OF_CHECKSUMS = (
    "state that was compared by checksums of its store was not read: that the store still has the bytes that it "
    "computed these of is its word; other bytes have the same CRC64NVME by accident with a probability of 2^-64, "
    "CRC32C 2^-32, and whoever wants to can make such (rescale validate --proof records reads all of it)"
)

_CLAIM = (
    "every key group, list element, union element and broadcast copy of the source was read from storage and is in "
    "the result, with the subtask that Flink will give it to"
)
_CLAIM_OF_FILES = (
    "of the RocksDB directories that were compared by their files, every SST file of the source that may have rows of "
    "a subtask is in its directory, in its place and order: as the source's own file in the version that was seen, or "
    "as a copy, of which both sides have one digest, or one checksum of the store; deleted ranges, newer than all "
    "rows, hide what these files hold of other key groups, and nothing of the subtask's own"
)
_CLAIM_OF_THE_RENAMED = (
    "of an operator that was declared as renamed, that holds of all its state under its new id, and no operator of the "
    "result has the old one"
)
_CLAIM_OF_THE_DROPPED = (
    "of an operator that was declared as dropped there is nothing in the result, and nothing of it was compared"
)
_CLAIM_OF_KAFKA = (
    "of the Kafka offsets that were declared to be otherwise, the result has those that were declared, as its own "
    "bytes say, and of all others the source's"
)
_CLAIM_OF_SOURCES = (
    "of a FlinkKafkaConsumer that was declared to become a KafkaSource, every partition is one split, with the offset "
    "of the next record, and assigned in the enumerator's state"
)
_CLAIM_OF_DROPPED_STATES = (
    "of a state that was declared as dropped there is nothing in the result, and all else of its operator is"
)
_CLAIM_OF_CHECKSUMS = (
    "of the state that was compared by checksums of its store, the bytes of files behind their headers, end to end, "
    "have the checksum that the source's have, computed by the store itself"
)
_EXCEPT = "except for the declared differences, "
_CLAIM_OF_THE_REST = f"of all other state, {_CLAIM}"


def certificate_of(
    source: Snapshot,
    result: Snapshot,
    proofs: Sequence[CertifiedOperator],
    plan: Plan | None,
    *,
    bound: bool,
    surgery: Surgery = NO_SURGERY,
) -> Certificate:
    """The same source and result give the same certificate; `result` is what the candidate makes of the target.

    It was looked at before its bytes were read and compared, and is looked at again. `bound` says whether its metadata
    was made here from a plan, or compared with a certificate. `source` is what it is after the `surgery`.
    """
    claims, limits = _claims(proofs, surgery), _limits(source, result, proofs, bound=bound)
    return Certificate(
        verdict=COMPLETE,
        proves=f"{_EXCEPT if _is_otherwise(surgery) else ''}{'; '.join(claims)}",
        does_not_prove="; ".join(limits) or None,
        digests="sums mod 2^128 of 128-bit XXH3 digests of key groups and elements",
        source=source.directory,
        source_metadata_sha256=source.metadata_sha256,
        target=result.directory,
        candidate_sha256=result.metadata_sha256,
        plan=plan.digest if plan else None,
        warnings=plan.warnings if plan else (),
        bytes=sum(proof.bytes for proof in proofs),
        operators=tuple(proofs),
        files=certified_files(result.directory, result.files[1:]),
        start=start_of(
            result.directory,
            [(operator.parallelism, operator.max_parallelism) for operator in source.operators],
            [(proof.parallelism, proof.max_parallelism) for proof in proofs],
        ).command,
        proof=Proof.FILES if _of_parts(proofs) else Proof.RECORDS,
        surgery=surgery,
    )


def _claims(proofs: Sequence[CertifiedOperator], surgery: Surgery) -> list[str]:
    of_parts = _of_parts(proofs)
    becomes_source = any(change.becomes_source for change in surgery.kafka)
    return [
        *of_parts,
        _CLAIM_OF_THE_REST if of_parts else _CLAIM,
        *_true((_CLAIM_OF_RECORDS, any(proof.records for proof in proofs))),
        *_true((_CLAIM_OF_THE_RENAMED, surgery.renamed), (_CLAIM_OF_THE_DROPPED, surgery.dropped)),
        *_true((_CLAIM_OF_KAFKA, surgery.kafka), (_CLAIM_OF_SOURCES, becomes_source)),
        *_true((_CLAIM_OF_DROPPED_STATES, surgery.dropped_states)),
    ]


def _of_parts(proofs: Sequence[CertifiedOperator]) -> list[str]:
    """What is claimed of state that was not compared record by record; nothing if all of it was."""
    by_files, by_sums = any(proof.directories is not None for proof in proofs), any(proof.checksums for proof in proofs)
    return _true((_CLAIM_OF_FILES, by_files), (_CLAIM_OF_CHECKSUMS, by_sums))


def _limits(source: Snapshot, result: Snapshot, proofs: Sequence[CertifiedOperator], *, bound: bool) -> list[str]:
    stays = [
        bool(old.databases) and not is_compared_by_record(old, new)
        for old, new in zip(source.operators, result.operators, strict=True)
    ]
    made_anew = any(proof.directories and not same for proof, same in zip(proofs, stays, strict=True))
    not_read = any(proof.directories and proof.directories.files_referred_to for proof in proofs)
    local = any(pin.mtime_ns is not None for _, pin in source.files)
    refers = any(not contains(result.directory, uri) for uri, _ in result.files[1:])
    return _true(
        (_OF_FILES, made_anew),
        (_OF_UNCHANGED, any(stays)),
        (_OF_FILES_NOT_READ, not_read),
        (_OF_CHECKSUMS, any(proof.checksums for proof in proofs)),
        (_OF_RULES, any(proof.records for proof in proofs)),
        (_OF_LOCAL_FILES, local),
        (_UNBOUND, not bound),
        (_OF_REFERENCES, refers),
    )


def _is_otherwise(surgery: Surgery) -> bool:
    """Whether not all state of the source is in the result as it was: what is renamed alone is."""
    return bool(surgery.dropped or surgery.dropped_states or surgery.kafka)


def _true(*sentences: tuple[str, object]) -> list[str]:
    """The sentences that hold."""
    return [sentence for sentence, holds in sentences if holds]
