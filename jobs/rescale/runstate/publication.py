"""Publication, the last step: writes the certified candidate as `_metadata`, so that Flink can restore the result.

If a job cannot be started from the result, the cut-over withdraws the publication (`withdraw`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.runstate.certificate import Certificate, certificate_beside, certificate_for
from rescale.runstate.certified_files import check_files
from rescale.runstate.documents import load_plan, put_document, read_document
from rescale.runstate.leftovers import clear_leftovers
from rescale.runstate.places import Places, places_of
from rescale.runstate.preparation import remove_unused_files
from rescale.runstate.removal import discard
from rescale.runstate.states import Claim, State, Transition, claim_on, is_being_discarded, permit, state_of
from rescale.storage.rereads import DOCUMENTS, RESULT, misread_error, read_again_on_failure
from rescale.storage.store import existing, exists, open_store
from rescale.text.advice import SAME_COMMAND, Advice
from rescale.text.errors import IntegrityError, RequestError, StoreError


@dataclass(frozen=True)
class Published:
    """A result that Flink can restore.

    `sha256` is the digest of its `_metadata`. `was_already_published` is True if the result had been published before.
    `proof` is the depth of the comparison with the source, and `bytes_compared` the number of bytes of state that were
    compared.
    """

    target: str
    sha256: str
    was_already_published: bool
    proof: Proof
    bytes_compared: int


def publish(plan: Plan, *, accept_unconditional: bool = False) -> Published:
    """Write the candidate that the certificate names as `_metadata`, if absent.

    Raises `IntegrityError` if a file of the result is not in its certified version, even if the result was published
    before. Raises `RequestError` if the result was discarded or is being discarded, or if the target holds another
    published result.
    """
    was_published = permit(plan, Transition.PUBLISH) is State.PUBLISHED
    claim = _read_claim_twice(plan)
    certificate, candidate = read_again_on_failure(lambda: _certified_candidate(plan), DOCUMENTS)
    if not was_published:
        clear_leftovers(places_of(plan))
        remove_unused_files(plan)
    check_files(plan.target, certificate.files, is_published=was_published)
    if not was_published:
        was_published = _begin_publishing(plan, claim)
    if was_published or not _put_metadata(
        places_of(plan).metadata, candidate, accept_unconditional=accept_unconditional
    ):
        _refuse_other_metadata(places_of(plan).metadata, candidate, certificate)
    _put_published_mark(plan)
    return Published(plan.target, certificate.candidate_sha256, was_published, certificate.proof, certificate.bytes)


def _begin_publishing(plan: Plan, claim: Claim | None) -> bool:
    """Write the mark that precedes `_metadata`; return whether another run has published since this run checked.

    Raises `RequestError` if `_metadata` must not be written: because the result is being discarded, or because another
    run has published `_metadata` and it is gone.
    """
    places = places_of(plan)
    put_document(places.publishing, b"the _metadata of this result was about to be put\n")
    _refuse_discarded(plan, claim)
    return exists(places.published) and permit(plan, Transition.PUBLISH) is State.PUBLISHED


def _refuse_other_metadata(uri: str, candidate: bytes, certificate: Certificate) -> None:
    """Raise `RequestError` if `_metadata` is not the candidate, and `StoreError` if two reads of it differ."""
    contents = []
    for _ in range(2):  # read twice, because a single read may be wrong
        contents.append(read_document(uri))
        if contents[-1] == candidate:
            return
    error = RequestError(
        "the target holds another published result",
        path=uri,
        expected=f"none, or one with SHA-256 {certificate.candidate_sha256}",
        found=f"one with SHA-256 {hashlib.sha256(contents[0]).hexdigest()}",
        advice="name another target",
    )
    raise error if contents[0] == contents[1] else misread_error([RESULT], error)


def _put_published_mark(plan: Plan) -> None:
    mark_uri = places_of(plan).published
    if not exists(mark_uri):
        put_document(
            mark_uri, b"this result was published: if its _metadata is gone, a job may still use the other files\n"
        )


def _put_metadata(uri: str, candidate: bytes, *, accept_unconditional: bool) -> bool:
    """Write the candidate as `_metadata`.

    Return whether the store guarantees that `_metadata` now has the candidate's bytes; if not, the caller must read
    and compare them.
    """
    store = open_store(uri)
    if not accept_unconditional:
        return store.put_if_absent(uri, candidate)
    store.put(uri, candidate)  # the store might not support a conditional request
    return False


def _certified_candidate(plan: Plan) -> tuple[Certificate, bytes]:
    """Return the certificate and the candidate. Raises `IntegrityError` if the certificate names another candidate."""
    certificate, place = certificate_for(plan), places_of(plan).candidate
    candidate = read_document(place)
    sha256 = hashlib.sha256(candidate).hexdigest()
    if certificate.candidate_sha256 != sha256:
        raise IntegrityError(
            "the candidate for `_metadata` is not the validated one",
            path=place,
            expected=f"SHA-256 {certificate.candidate_sha256}",
            found=f"SHA-256 {sha256}",
            advice=Advice(SAME_COMMAND, ": it validates again"),
        )
    return certificate, candidate


def _read_claim_twice(plan: Plan) -> Claim | None:
    """Return the claim, for a later comparison. Raises `StoreError` if two reads of it differ: one is a misread."""
    first, second = _claim_on(plan), _claim_on(plan)
    if first != second:
        raise StoreError("two reads of the claim differ", path=places_of(plan).claim, expected=first, found=second)
    return first


def _claim_on(plan: Plan) -> Claim | None:
    return read_again_on_failure(lambda: claim_on(plan.target), DOCUMENTS)


def _refuse_discarded(plan: Plan, claim: Claim | None) -> None:
    """Raise `RequestError` if the target is being discarded, or was discarded, since the `claim` was read.

    `discard` removes the claim before its note. So the note is checked before the claim: otherwise a whole discard
    could end between the two checks. If the claim has changed, this run's `publishing` mark is void, and is removed. A
    `discard` that sees the mark after it has written its note removes the note and stops.
    """
    is_discarded = is_being_discarded(plan.target)
    current_claim = _claim_on(plan)
    if current_claim != claim:
        current_claim = _read_claim_twice(plan)
    if current_claim == claim and not is_discarded:
        return
    if current_claim != claim:
        open_store(plan.target).delete([places_of(plan).publishing])
    raise RequestError(
        "the result was discarded before it was published",
        path=plan.target,
        advice=Advice(SAME_COMMAND, " when the discard has ended"),
    )


def withdraw(plan: Plan) -> None:
    """Remove a result that is or may be published, and that no job runs from. The files of the target's follower stay.

    An interrupted withdrawal can be repeated. Raises `RequestError` if the result cannot have been published.
    """
    permit(plan, Transition.WITHDRAW)
    _put_published_mark(plan)
    store, certificate = open_store(plan.target), certificate_beside(plan.target)
    files = () if certificate is None else certificate.files
    uris = [places_of(plan).metadata, *(file.uri(plan.target) for file in files if not file.is_elsewhere)]
    existing_uris = existing(uris)
    store.delete(existing_uris[:1])
    store.delete(existing_uris[1:])
    discard(plan.target, keeps_follower=True)


def published_plan(target: str, run_identity: Mapping[str, str] | None = None) -> Plan | None:
    """Return the plan of the result that is or was published in a target.

    Returns None if there is no such result, or if another run than `run_identity` has claimed the target.
    """
    claim = claim_on(target)
    if claim is None or (run_identity is not None and claim.by != run_identity):
        return None
    if state_of(target, claim.plan_digest) not in (State.PUBLISHED, State.GONE, State.EMPTIED):
        return None
    return load_plan(Places(target, claim.plan_digest).plan)


def is_published(plan: Plan) -> bool:
    """Return whether the target's `_metadata` is this plan's candidate."""
    places = places_of(plan)
    return (
        state_of(plan.target, plan.digest) is State.PUBLISHED
        and exists(places.candidate)
        and read_document(places.metadata) == read_document(places.candidate)
    )


def was_published(plan: Plan) -> bool:
    """Return whether the result is or was published; a job that owns the result may have deleted it since."""
    return is_published(plan) or state_of(plan.target, plan.digest) in (State.GONE, State.EMPTIED)
