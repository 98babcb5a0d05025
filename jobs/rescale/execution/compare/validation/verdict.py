"""The certificate of a validation: sentences that say what was proven, and what the proof relies on."""

from __future__ import annotations

from collections.abc import Sequence

from rescale.execution.compare.validation.coverage import is_compared_by_record
from rescale.flink.start import start_of
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.runstate.certificate import COMPLETE_VERDICT, Certificate, CertifiedOperator
from rescale.runstate.certified_files import certified_files
from rescale.snapshot.model import Snapshot
from rescale.snapshot.surgery import NO_SURGERY, Surgery
from rescale.storage.locations import contains

_PROVEN_OF_RECORDS = (
    "where the max parallelism changed, this holds for every record, and every record whose key has a given hash rule "
    "lies in the key group of that hash: in the source under the old maximum, in the result under the new one"
)
_LIMIT_OF_RULES = (
    "a hash rule that is wrong for only k keys passes unnoticed with a probability of (old maximum)^-k; the rules of "
    "Java's and Flink's own types are known, formulas found for a user's class are tested, not known"
)

_LIMIT_OF_LOCAL_FILES = (
    "a local file of the source that changed between plan and move but kept its size and modification time would not "
    "be noticed"
)
_LIMIT_WITHOUT_CERTIFICATE = (
    "no certificate lies beside the result, so metadata that follows from the plan alone was not compared: the shape "
    "of operators without state, the digest of the plan in names, the ids of handles"
)

_LIMIT_OF_REFERENCES = (
    "the result refers to files of the source and depends on them: keep the source unchanged until the job has made a "
    "full checkpoint of its own"
)
_LIMIT_OF_BASE_FILES = (
    "the result refers to files of its base and depends on them: keep the base unchanged as long as the result is "
    "needed"
)

_LIMIT_OF_FILES = (
    "in RocksDB directories that were compared by their files, no row was read: the source's files are trusted to be "
    "readable, to hold what Flink wrote, and to begin and end with the keys in their MANIFESTs, by which Flink finds "
    "rows and Rescale assigns files to subtasks (a validation with the proof `records` reads every row)"
)
_LIMIT_OF_UNCHANGED = (
    "in RocksDB directories that stay unchanged in their subtasks, no row was read, whatever the proof: their rows are "
    "trusted to be as Flink wrote them, and to agree with their MANIFESTs"
)
_LIMIT_OF_UNCHECKED_TABLES = (
    "some SST files have an unknown format, so the checksums of their blocks were not checked: these files are trusted "
    "to be readable"
)
_LIMIT_OF_FILES_NOT_READ = (
    "files that the result refers to were not read: their place, size, and ETag or modification time are those of the "
    "source's files"
)

_LIMIT_OF_CHANGES = (
    "in directories that continue the base, only changed rows were read: that the base holds what its own source held "
    "is proven only by the base's certificate; a file that both checkpoints refer to counts as unchanged if its size "
    "and its ETag or modification time are unchanged (a validation with the proof `records` reads all rows)"
)
_LIMIT_OF_CHECKSUMS = (
    "state that was compared by checksums of its store was not read: the store is trusted to still hold the bytes it "
    "checksummed; other bytes have the same CRC64NVME by accident with a probability of 2^-64, the same CRC32C with "
    "2^-32, and can be forged on purpose (a validation with the proof `records` reads all state)"
)

_PROVEN_OF_STATE = (
    "every key group, list element, union element and broadcast copy of the source was read from storage and is in "
    "the result, in the subtask that Flink will restore it to"
)
_PROVEN_OF_FILES = (
    "in RocksDB directories that were compared by their files, every SST file of the source that may have rows of a "
    "subtask is in the subtask's directory, at its level and in its order: as the source's own file in the pinned "
    "version, or as a copy with the same digest or the same checksum of the store; range tombstones, newer than all "
    "rows, hide the rows of other key groups in these files, and no row of the subtask's own"
)
_PROVEN_OF_BLOCKS = (
    "in SST files that were compared byte by byte, every block has the checksum that RocksDB wrote with it"
)
_PROVEN_OF_CHANGES = (
    "in RocksDB directories that continue the base, every key was examined that is in a file of only one of the two "
    "checkpoints, or in a file that was written and compacted away between them, unless RocksDB's MANIFEST shows that "
    "only compactions have rewritten this file: if the entries of a key in these files show that it did not change, "
    "or which value it has now, they were trusted; else its rows in both checkpoints were compared; the new values "
    "and the deletions have the same digests as those in the result, where RocksDB finds each of them; and all files "
    "of the base are in the result, below these changes: as the base's own files, under a second name, with the same "
    "checksum of the store, or byte for byte"
)
_PROVEN_OF_THE_RENAMED = (
    "for an operator that was declared as renamed, this holds for all its state under its new id, and no operator of "
    "the result has the old id"
)
_PROVEN_OF_THE_DROPPED = (
    "an operator that was declared as dropped has no state in the result, so the comparison left its state out"
)
_PROVEN_OF_KAFKA = (
    "the result's own bytes hold the declared Kafka offsets where offsets were declared, and the source's offsets "
    "everywhere else"
)
_PROVEN_OF_SOURCES = (
    "for a FlinkKafkaConsumer that was declared to become a KafkaSource, every partition is one split, with the offset "
    "of the next record, and is assigned in the enumerator's state"
)
_PROVEN_OF_DROPPED_STATES = (
    "a state that was declared as dropped is not in the result, but all other state of its operator is"
)
_PROVEN_OF_OLD_ROWS = (
    "of a state that was declared to lose old rows, the result holds exactly the rows and list elements whose last "
    "access is later than declared; the time of last access was read in every row and element"
)
_PROVEN_OF_RESTARTS = "no subtask of an operator that was declared as restarted counts as finished in the result"
_PROVEN_OF_CHECKSUMS = (
    "for state that was compared by checksums of its store, the bytes of all files after their headers, end to end, "
    "have the same checksum as the source's bytes, computed by the store itself"
)
_EXCEPTION_CLAUSE = "except for the declared differences, "
_PROVEN_OF_THE_REST = f"for all other state, {_PROVEN_OF_STATE}"


def certificate_of(
    source: Snapshot,
    result: Snapshot,
    proofs: Sequence[CertifiedOperator],
    plan: Plan | None,
    *,
    is_metadata_checked: bool,
    surgery: Surgery = NO_SURGERY,
) -> Certificate:
    """Return the certificate of a result; the same source and result give the same certificate.

    `source` is the source after the `surgery`, `result` the target with the candidate as its `_metadata`.
    `is_metadata_checked` says whether this run made the result's metadata from the plan, or compared it with a
    certificate.
    """
    base_files = plan.base_files_referred_to if plan else {}
    uris_elsewhere = {uri for uri, _ in result.files[1:] if not contains(result.directory, uri)}
    proven_sentences, limit_sentences = (
        _proven_sentences(proofs, surgery),
        _limit_sentences(source, result, proofs, is_metadata_checked=is_metadata_checked),
    )
    limit_sentences += _true_sentences(
        (_LIMIT_OF_REFERENCES, uris_elsewhere - base_files.keys()),
        (_LIMIT_OF_BASE_FILES, uris_elsewhere & base_files.keys()),
    )
    return Certificate(
        verdict=COMPLETE_VERDICT,
        proves=f"{_EXCEPTION_CLAUSE if _changes_state(surgery) else ''}{'; '.join(proven_sentences)}",
        does_not_prove="; ".join(limit_sentences) or None,
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
        )
        ._replace(refers=bool(uris_elsewhere))
        .command,
        proof=_proof_depth(proofs),
        surgery=surgery,
        continues=plan.continued if plan else None,
    )


def _proven_sentences(proofs: Sequence[CertifiedOperator], surgery: Surgery) -> list[str]:
    without_records = _proven_without_records(proofs)
    becomes_source = any(change.becomes_source for change in surgery.kafka)
    return [
        *without_records,
        _PROVEN_OF_THE_REST if without_records else _PROVEN_OF_STATE,
        *_true_sentences((_PROVEN_OF_RECORDS, any(proof.records for proof in proofs))),
        *_true_sentences((_PROVEN_OF_BLOCKS, any(proof.tables and proof.tables.checked for proof in proofs))),
        *_true_sentences((_PROVEN_OF_THE_RENAMED, surgery.renamed), (_PROVEN_OF_THE_DROPPED, surgery.dropped)),
        *_true_sentences((_PROVEN_OF_KAFKA, surgery.kafka), (_PROVEN_OF_SOURCES, becomes_source)),
        *_true_sentences((_PROVEN_OF_DROPPED_STATES, surgery.dropped_states), (_PROVEN_OF_RESTARTS, surgery.restarted)),
        *_true_sentences((_PROVEN_OF_OLD_ROWS, surgery.old_rows)),
    ]


def _proof_depth(proofs: Sequence[CertifiedOperator]) -> Proof:
    if any(proof.changes for proof in proofs):
        return Proof.CHANGES
    return Proof.FILES if _proven_without_records(proofs) else Proof.RECORDS


def _proven_without_records(proofs: Sequence[CertifiedOperator]) -> list[str]:
    """Return what is proven about state that was not compared record by record, if there is any."""
    has_files, has_checksums = (
        any(proof.directories is not None for proof in proofs),
        any(proof.checksums for proof in proofs),
    )
    has_changes = any(proof.changes for proof in proofs)
    return _true_sentences(
        (_PROVEN_OF_FILES, has_files), (_PROVEN_OF_CHECKSUMS, has_checksums), (_PROVEN_OF_CHANGES, has_changes)
    )


def _limit_sentences(
    source: Snapshot, result: Snapshot, proofs: Sequence[CertifiedOperator], *, is_metadata_checked: bool
) -> list[str]:
    directories_stay = [
        bool(old.databases) and not is_compared_by_record(old, new)
        for old, new in zip(source.operators, result.operators, strict=True)
    ]
    has_rewritten_directories = any(
        proof.directories and not stays for proof, stays in zip(proofs, directories_stay, strict=True)
    )
    has_unread_files = any(proof.directories and proof.directories.files_referred_to for proof in proofs)
    has_local_files = any(pin.mtime_ns is not None for _, pin in source.files)
    return _true_sentences(
        (_LIMIT_OF_CHANGES, any(proof.changes for proof in proofs)),
        (_LIMIT_OF_FILES, has_rewritten_directories),
        (_LIMIT_OF_UNCHANGED, any(directories_stay)),
        (_LIMIT_OF_UNCHECKED_TABLES, any(proof.tables and proof.tables.unchecked for proof in proofs)),
        (_LIMIT_OF_FILES_NOT_READ, has_unread_files),
        (_LIMIT_OF_CHECKSUMS, any(proof.checksums for proof in proofs)),
        (_LIMIT_OF_RULES, any(proof.records for proof in proofs)),
        (_LIMIT_OF_LOCAL_FILES, has_local_files),
        (_LIMIT_WITHOUT_CERTIFICATE, not is_metadata_checked),
    )


def _changes_state(surgery: Surgery) -> bool:
    """Return whether the surgery changes state; renaming alone does not."""
    changes = (surgery.dropped, surgery.dropped_states, surgery.kafka, surgery.restarted, surgery.old_rows)
    return any(changes)


def _true_sentences(*sentences: tuple[str, object]) -> list[str]:
    return [sentence for sentence, holds in sentences if holds]
