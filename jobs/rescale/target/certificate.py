"""The certificate: what was compared, and the SHA-256 of the one candidate that may be published for it.

Validation fills it in; here is its form, as JSON beside the target. It carries its own digest, so that a certificate
that was damaged, or edited, is none; everything that reads one reads it through `read_certificate`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rescale.errors import IntegrityError, RequestError
from rescale.planning.values.plan import Plan
from rescale.planning.values.proof import Proof
from rescale.snapshot.surgery import NO_SURGERY, Surgery
from rescale.storage.store import open_store
from rescale.target.certified_files import CertifiedFile
from rescale.target.documents import read_document
from rescale.target.places import certificate_place, places_of
from rescale.target.states import Move, State, permit

COMPLETE = "complete"

_DIGEST = "document_sha256"
_DAMAGED = (
    "if the result is published, move the certificate away, then compare it with its source: rescale validate; else "
    "run the same command again"
)
_ADVICE = "if the result is published, compare it with its source: rescale validate; else run the same command again"


@dataclass(frozen=True)
class CertifiedRecords:
    """Of records that got new key groups: how many, of how many keys at least, and the digest (hex) of each state.

    `hash_is` says how sure the rule `key_hash` is; both are None where none is known. `left_out` has the number of
    records of each state that was declared as dropped: the source has them, and the result does not.
    """

    compared: int
    key_hash: str | None
    hash_is: str | None
    distinct_keys_at_least: int
    states: dict[str, CertifiedState]
    left_out: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CertifiedState:
    records: int
    digest: str


@dataclass(frozen=True)
class CertifiedDirectories:
    """Of RocksDB directories: how many went by their files, without their rows, and how many by their records.

    The former have so many SST files of the source, which the result refers to or has copies of, and so many files of
    deleted ranges, which hide rows of other subtasks.
    """

    by_files: int
    by_records: int
    files_referred_to: int
    files_copied: int
    deleted_ranges: int


@dataclass(frozen=True)
class CertifiedChecksums:
    """So many bytes were compared by checksums of the store, of these algorithms, and not read."""

    algorithms: tuple[str, ...]
    bytes: int


@dataclass(frozen=True)
class CertifiedOperator:
    """What was found equal for one operator: counts, bytes, and a digest (hex) over all of it.

    `directories` is there if some went by their files, `checksums` if some bytes went by those of the store.
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


@dataclass(frozen=True)
class Certificate:
    """`plan` is the digest of the plan that was carried out, None where a published result was looked at without it.

    `proof` is how deep it went (`Proof`): by files, if that was so of any RocksDB directory or other file. `surgery`
    is what the result was declared to have otherwise than its source; all else is equal.
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

    def document(self) -> dict[str, Any]:
        """As JSON values, with the digest of all others: SHA-256 (hex) of their compact JSON with sorted keys."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return {**fields, _DIGEST: _digest(fields)}


def write_certificate(plan: Plan, certificate: Certificate) -> None:
    """Beside the target: from now on the candidate that it names may be published, or is the one that was.

    `IntegrityError` if another one was meanwhile.
    """
    places, store, metadata = places_of(plan), open_store(plan.target), None
    if permit(plan, Move.CERTIFY) is State.PUBLISHED:
        metadata = read_document(places.metadata)
        published = hashlib.sha256(metadata).hexdigest()
        if published != certificate.candidate_sha256:
            raise IntegrityError(
                "what was compared with the source is not what is published by now",
                path=places.metadata,
                expected=certificate.candidate_sha256,
                found=published,
                advice=_ADVICE,
            )
    store.put(places.certificate, msgspec.json.format(msgspec.json.encode(certificate.document()), indent=2))
    if metadata is not None:  # behind it: a candidate that is what is published says that it was certified
        store.put(places.candidate, metadata)


def read_certificate(target: str) -> Certificate:
    """The certificate beside a target; `RequestError` if there is none, `IntegrityError` if it is not as it was."""
    uri = certificate_place(target)
    if open_store(uri).stat(uri) is None:
        raise RequestError("the result has no certificate", path=uri, advice="rescale run writes one")
    try:
        fields: dict[str, Any] = msgspec.json.decode(read_document(uri), type=dict[str, Any])
        found = fields.pop(_DIGEST, None)
        certificate = msgspec.convert(fields, Certificate)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise IntegrityError(f"the certificate cannot be read: {error}", path=uri, advice=_DAMAGED) from None
    expected = _digest(fields)
    if found != expected or certificate.verdict != COMPLETE:
        raise IntegrityError(
            "the certificate is not what was written: it has another digest than it says",
            path=uri,
            expected=found,
            found=expected,
            advice=_DAMAGED,
        )
    return certificate


def certificate_beside(target: str) -> Certificate | None:
    """As `read_certificate`; None where there is none, as of a result that was moved away from it."""
    uri = certificate_place(target)
    return read_certificate(target) if open_store(uri).stat(uri) is not None else None


def certificate_for(plan: Plan) -> Certificate:
    """The certificate of what this plan made; `IntegrityError` if it is another plan's."""
    certificate = read_certificate(plan.target)
    if certificate.plan != plan.digest:
        raise IntegrityError(
            "the certificate is another plan's; nothing was published",
            path=places_of(plan).certificate,
            expected=plan.digest,
            found=certificate.plan,
        )
    return certificate


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(fields, order="deterministic")).hexdigest()
