"""The last step: the candidate that was certified becomes `_metadata`, and the result a checkpoint."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from rescale.errors import IntegrityError, RequestError, StoreError
from rescale.planning.values.plan import Plan
from rescale.planning.values.proof import Proof
from rescale.storage.second_look import DOCUMENTS, RESULT, looked_at_again, misread
from rescale.storage.store import open_store
from rescale.target.certificate import Certificate, certificate_for
from rescale.target.certified_files import check_files
from rescale.target.documents import read_document
from rescale.target.leftovers import clear_leftovers
from rescale.target.places import places_of
from rescale.target.states import Claim, Move, State, claim_on, is_being_discarded, permit, state_of


@dataclass(frozen=True)
class Published:
    """A result that Flink can restore; `sha256` is that of its `_metadata`, `already` if it stood there before.

    `proof` is how deep it was compared with its source, and `compared` how many bytes of state were.
    """

    target: str
    sha256: str
    already: bool
    proof: Proof
    compared: int


def publish(plan: Plan, *, accept_unconditional: bool = False) -> Published:
    """Puts exactly the bytes that the certificate names as `_metadata`, if absent, and nothing else.

    Where it stands there already, that is checked: `IntegrityError` if a file of the result is not what was certified.
    `RequestError` if the result is being discarded, or was meanwhile.
    """
    already = permit(plan, Move.PUBLISH) is State.PUBLISHED
    claim = _read_twice(plan)
    certificate, candidate = looked_at_again(lambda: _certified(plan), DOCUMENTS)
    if not already:
        clear_leftovers(places_of(plan))
    check_files(plan.target, certificate.files, published=already)
    if not already:
        already = _begin(plan, claim)
    if already or not _put(places_of(plan).metadata, candidate, accept_unconditional=accept_unconditional):
        _refuse_another(places_of(plan).metadata, candidate, certificate)
    _say_that_it_is_published(plan)
    return Published(plan.target, certificate.candidate_sha256, already, certificate.proof, certificate.bytes)


def _begin(plan: Plan, claim: Claim | None) -> bool:
    """Says that `_metadata` is about to be put; whether one that was faster has put it meanwhile.

    `RequestError` where it must not be: the result is being discarded, or that of the faster one has gone since.
    """
    places, store = places_of(plan), open_store(plan.target)
    store.put(places.publishing, b"the _metadata of this result was about to be put\n")
    _give_way(plan, claim)
    return store.stat(places.published) is not None and permit(plan, Move.PUBLISH) is State.PUBLISHED


def _refuse_another(uri: str, candidate: bytes, certificate: Certificate) -> None:
    """`RequestError` if the `_metadata` that is there is not the candidate; `StoreError` if it is never the same."""
    looks = []
    for _ in range(2):  # one look may misread it
        looks.append(read_document(uri))
        if looks[-1] == candidate:
            return
    another = RequestError(
        "the target holds another published result",
        path=uri,
        expected=f"none, or one with SHA-256 {certificate.candidate_sha256}",
        found=f"one with SHA-256 {hashlib.sha256(looks[0]).hexdigest()}",
        advice="name another target",
    )
    raise another if looks[0] == looks[1] else misread([RESULT], another)


def _say_that_it_is_published(plan: Plan) -> None:
    places, store = places_of(plan), open_store(plan.target)
    if store.stat(places.published) is None:
        store.put(places.published, b"the _metadata of this result was put: who deletes it may still use the files\n")


def _put(uri: str, candidate: bytes, *, accept_unconditional: bool) -> bool:
    """Whether what stands there now must be the candidate."""
    store = open_store(uri)
    if not accept_unconditional:
        return store.put_if_absent(uri, candidate)
    store.put(uri, candidate)  # without any conditional request: the store may not even know them
    return False


def _certified(plan: Plan) -> tuple[Certificate, bytes]:
    """The certificate, and the candidate that it names; `IntegrityError` if that is not the one which is there."""
    certificate, place = certificate_for(plan), places_of(plan).candidate
    candidate = read_document(place)
    sha256 = hashlib.sha256(candidate).hexdigest()
    if certificate.candidate_sha256 != sha256:
        raise IntegrityError(
            "the candidate is not the one that was validated; nothing was published",
            path=place,
            expected=certificate.candidate_sha256,
            found=sha256,
            advice="run the same command again: it validates again",
        )
    return certificate, candidate


def _read_twice(plan: Plan) -> Claim | None:
    """The claim, which is compared with what is there later on: nothing but a second look tells that it was misread."""
    found, again = _claim_on(plan), _claim_on(plan)
    if found != again:
        raise StoreError(
            "the claim did not read the same twice", path=places_of(plan).claim, expected=found, found=again
        )
    return found


def _claim_on(plan: Plan) -> Claim | None:
    return looked_at_again(lambda: claim_on(plan.target), DOCUMENTS)


def _give_way(plan: Plan, claim: Claim | None) -> None:
    """To `discard`, which says that it is at work, and gives way itself if it finds that the result is to be published.

    It removes the claim before what it says, so they are looked for the other way round: else it could end in between.
    Where the claim is no longer the same, the mark that was just put stands for nothing.
    """
    discarded = is_being_discarded(plan.target)
    found = _claim_on(plan)
    if found != claim:
        found = _read_twice(plan)
    if found == claim and not discarded:
        return
    if found != claim:
        open_store(plan.target).delete([places_of(plan).publishing])
    raise RequestError(
        "the result was discarded while it was to be published; nothing was published",
        path=plan.target,
        advice="run the same command again when that has ended",
    )


def is_published(plan: Plan) -> bool:
    """Whether the target's `_metadata` is this plan's candidate already."""
    places = places_of(plan)
    return (
        state_of(plan.target, plan.digest) is State.PUBLISHED
        and open_store(places.candidate).stat(places.candidate) is not None
        and read_document(places.metadata) == read_document(places.candidate)
    )


def was_published(plan: Plan) -> bool:
    """Whether it is, or was once: a job that claimed it deletes it when newer checkpoints have taken its place."""
    return is_published(plan) or state_of(plan.target, plan.digest) in (State.GONE, State.EMPTIED)
