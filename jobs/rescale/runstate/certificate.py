"""The certificate: what was compared, and the SHA-256 of the only `_metadata` that may be published for it.

Validation writes it as a JSON document beside the target. It contains a digest of itself, which reveals damage and
edits; all readers use `read_certificate`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rescale.plan.continuation import ContinuedResult
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.runstate.certified_files import CertifiedFile
from rescale.runstate.documents import load_plan, read_document
from rescale.runstate.places import Places, certificate_place, places_of
from rescale.runstate.states import State, Transition, permit
from rescale.snapshot.surgery import NO_SURGERY, Surgery
from rescale.storage.store import exists, open_store
from rescale.text.advice import SAME_COMMAND, Advice, command
from rescale.text.errors import DECODE_ERRORS, IntegrityError, RequestError

COMPLETE_VERDICT = "complete"

_DIGEST_FIELD = "document_sha256"
_VALIDATE_ADVICE = Advice(command("validate"), "; else ", SAME_COMMAND)
_DAMAGED_ADVICE = Advice(
    "if the result is published, move the certificate away, then compare it with its source: ", _VALIDATE_ADVICE
)
_COMPARE_ADVICE = Advice("if the result is published, compare it with its source: ", _VALIDATE_ADVICE)


@dataclass(frozen=True)
class CertifiedRecords:
    """Records that were compared one by one: numbers of records and of distinct keys, and a digest of each state.

    In directories that continue a base (`CertifiedOperator.changes`), the records are the changes since the base: new
    values and deletions.

    `key_hash` is the rule that computes the hash of a key, and `hash_is` says how sure the rule is; both are None if no
    rule is known. `left_out` is the number of records of each dropped state, which the source has and the result does
    not. `old_rows` counts the old rows and list elements of each state that the result lacks.
    """

    compared: int
    key_hash: str | None
    hash_is: str | None
    distinct_keys_at_least: int
    states: dict[str, CertifiedState]
    left_out: dict[str, int] = field(default_factory=dict)
    old_rows: dict[str, CertifiedOldRows] = field(default_factory=dict)


@dataclass(frozen=True)
class CertifiedOldRows:
    """Numbers of whole rows, and of list elements, of a state that were left out of the result because they are old.

    `elements` includes the elements of the whole rows. A row or an element is old if its last access was at or before
    `until` of the state's `OldRows`.
    """

    rows: int
    elements: int


@dataclass(frozen=True)
class CertifiedState:
    """Number of records of a state, and a digest (hex) of them."""

    records: int
    digest: str


@dataclass(frozen=True)
class CertifiedDirectories:
    """Numbers of an operator's RocksDB directories that were compared by files, without reading rows, and by records.

    The result refers to `files_referred_to` SST files of the source and has copies of `files_copied`. `deleted_ranges`
    is the number of new files with range tombstones, which hide rows of other subtasks.
    """

    by_files: int
    by_records: int
    files_referred_to: int
    files_copied: int
    deleted_ranges: int


@dataclass(frozen=True)
class CertifiedChecksums:
    """Number of bytes that were compared by the store's checksums instead of being read, and their algorithms."""

    algorithms: tuple[str, ...]
    bytes: int


@dataclass(frozen=True)
class CertifiedTables:
    """Numbers of SST files that were read whole.

    In `checked` files, every block has the checksum that RocksDB wrote with it. In `unchecked` files, no checksums were
    compared, because the format of the files is unknown.
    """

    checked: int
    unchecked: int


@dataclass(frozen=True)
class CertifiedChanges:
    """Changes of an operator since the base: the numbers of keys whose value was written, and of deleted keys.

    The result contains `files_of_base` files of the base unchanged.
    """

    written: int
    deleted: int
    files_of_base: int


@dataclass(frozen=True)
class CertifiedOperator:
    """The state of one operator that is equal in source and result: counts, bytes, and a digest (hex) over all of it.

    `directories` is None if no RocksDB directory was compared by its files, and `checksums` if no bytes were compared
    by checksums of the store. `tables` is None if no SST file was read whole, and `changes` if the operator continues
    no base.
    """

    operator_id: str
    label: str
    parallelism: int
    max_parallelism: int
    key_groups: int
    elements: int
    broadcast_copies: int
    bytes: int
    digest: str
    records: CertifiedRecords | None
    directories: CertifiedDirectories | None = None
    checksums: CertifiedChecksums | None = None
    tables: CertifiedTables | None = None
    changes: CertifiedChanges | None = None


@dataclass(frozen=True)
class Certificate:
    """Proof that a result holds the state of its source.

    `plan` is the digest of the plan that was carried out, None if a published result was validated without its plan.
    `proof` is `changes` if an operator continues a base. Otherwise it is `files` if any state was compared by files or
    checksums, without reading its records, and `records` if not. `surgery` lists the declared differences from the
    source; everything else is equal. `continues` is the base that the result continues, if any.
    """

    verdict: str
    proves: str
    does_not_prove: str | None
    digests: str
    source: str
    source_metadata_sha256: str
    target: str
    candidate_sha256: str
    plan: str | None
    warnings: tuple[str, ...]
    bytes: int
    operators: tuple[CertifiedOperator, ...]
    files: tuple[CertifiedFile, ...]
    start: str
    proof: Proof = Proof.RECORDS
    surgery: Surgery = NO_SURGERY
    continues: ContinuedResult | None = None

    def document(self) -> CertificateDocument:
        """Return the certificate with the SHA-256 (hex) of its compact JSON with sorted keys."""
        return CertificateDocument(**vars(self), document_sha256=_digest(self))


@dataclass(frozen=True, kw_only=True)
class CertificateDocument(Certificate):
    """A certificate with a digest of itself: `document_sha256` is the SHA-256 (hex) of the other fields."""

    document_sha256: str


def write_certificate(plan: Plan, certificate: Certificate) -> None:
    """Write the certificate beside the target. From then on, the candidate that it names may be published.

    Raises `IntegrityError` if another candidate was published while this one was compared.
    """
    places, store, metadata = places_of(plan), open_store(plan.target), None
    if permit(plan, Transition.CERTIFY) is State.PUBLISHED:
        metadata = read_document(places.metadata)
        published_sha256 = hashlib.sha256(metadata).hexdigest()
        if published_sha256 != certificate.candidate_sha256:
            raise IntegrityError(
                "another `_metadata` was published while this one was compared with the source",
                path=places.metadata,
                expected=certificate.candidate_sha256,
                found=published_sha256,
                advice=_COMPARE_ADVICE,
            )
    store.put(places.certificate, msgspec.json.format(msgspec.json.encode(certificate.document()), indent=2))
    if metadata is not None:
        # The certificate comes first: `is_published` is true as soon as candidate and `_metadata` are equal.
        store.put(places.candidate, metadata)


def refuse_changed_metadata(uri: str, sha256: str, certificate: Certificate) -> None:
    """Raise `IntegrityError` unless the `_metadata` at `uri`, whose SHA-256 (hex) is `sha256`, is the certified one."""
    if sha256 != certificate.candidate_sha256:
        raise IntegrityError(
            "the metadata of the result is not the certified one",
            path=uri,
            expected=f"SHA-256 {certificate.candidate_sha256}",
            found=f"SHA-256 {sha256}",
            advice="it was changed after publication: rescale the source again, to another target",
        )


def read_certificate(target: str) -> Certificate:
    """Return the certificate beside a target.

    Raises `RequestError` if there is none, and `IntegrityError` if it was changed after it was written.
    """
    uri = certificate_place(target)
    if not exists(uri):
        raise RequestError(
            "the result has no certificate",
            path=uri,
            expected="a published result, with its documents beside it",
            advice=Advice("name the target of ", command("run"), ", which writes the certificate"),
        )
    try:
        fields: dict[str, Any] = msgspec.json.decode(read_document(uri), type=dict[str, Any])
        digest = fields.pop(_DIGEST_FIELD, None)
        certificate = msgspec.convert(fields, Certificate)
    except DECODE_ERRORS as error:
        raise IntegrityError(f"the certificate cannot be read: {error}", path=uri, advice=_DAMAGED_ADVICE) from None
    expected_digest = _digest(fields)
    if digest != expected_digest or certificate.verdict != COMPLETE_VERDICT:
        raise IntegrityError(
            "the certificate was changed after it was written: its digest is not the one it names",
            path=uri,
            expected=digest,
            found=expected_digest,
            advice=_DAMAGED_ADVICE,
        )
    return certificate


def certificate_beside(target: str) -> Certificate | None:
    """Return the certificate beside a target; None if there is none, for example because the result was moved."""
    return read_certificate(target) if exists(certificate_place(target)) else None


def certified_plan(target: str) -> Plan:
    """Return the plan that the certificate beside a target names. Raises the errors of `read_certificate`."""
    return load_plan(Places(target, read_certificate(target).plan or "").plan)


def certificate_for(plan: Plan) -> Certificate:
    """Return the certificate of this plan's result. Raises `IntegrityError` if the certificate names another plan."""
    certificate = read_certificate(plan.target)
    if certificate.plan != plan.digest:
        raise IntegrityError(
            "the certificate belongs to another plan",
            path=places_of(plan).certificate,
            expected=plan.digest,
            found=certificate.plan,
        )
    return certificate


def _digest(fields: object) -> str:
    return hashlib.sha256(msgspec.json.encode(fields, order="sorted")).hexdigest()
