"""The last step: the candidate that was certified becomes `_metadata`, and the result a checkpoint."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from rescale.errors import IntegrityError, RequestError
from rescale.planning.plan import Plan
from rescale.planning.proof import Proof
from rescale.storage.store import open_store
from rescale.target.certificate import certificate_for
from rescale.target.certified_files import check_files
from rescale.target.documents import read_document
from rescale.target.leftovers import clear_leftovers
from rescale.target.places import places_of
from rescale.target.states import Move, State, claimed_by, is_being_discarded, permit, state_of


@dataclass(frozen=True)
class Published:
    """A result that Flink can restore; `sha256` is that of its `_metadata`, `already` if it stood there before.

    `proof` is how deep it was compared with its source.
    """

    target: str
    sha256: str
    already: bool
    proof: Proof


def publish(plan: Plan, *, accept_unconditional: bool = False) -> Published:
    """Puts exactly the bytes that the certificate names as `_metadata`, if absent, and nothing else.

    Where it stands there already, that is checked: `IntegrityError` if a file of the result is not what was certified.
    It is taken back, with `RequestError`, if the result was being discarded meanwhile.
    """
    already = permit(plan, Move.PUBLISH) is State.PUBLISHED
    places, store = places_of(plan), open_store(plan.target)
    certificate = certificate_for(plan)
    candidate = read_document(places.candidate)
    sha256 = hashlib.sha256(candidate).hexdigest()
    if certificate.candidate_sha256 != sha256:
        raise IntegrityError(
            "the candidate is not the one that was validated; nothing was published",
            path=places.candidate,
            expected=certificate.candidate_sha256,
            found=sha256,
            advice="run the same command again: it validates again",
        )
    if not already:
        clear_leftovers(places)
    check_files(plan.target, certificate.files, published=already)
    if not accept_unconditional:
        ours = store.put_if_absent(places.metadata, candidate)
    else:  # without any conditional request: the store may not even know them
        if not already:
            store.put(places.metadata, candidate)
        ours = read_document(places.metadata) == candidate
    if not ours:
        raise RequestError(
            "the target holds another published result",
            path=places.metadata,
            expected=f"none, or one with SHA-256 {sha256}",
            advice="name another target",
        )
    # In the opposite order to that of `discard`, which says so first and looks for `_metadata` then.
    if not already and (is_being_discarded(plan.target) or claimed_by(plan.target) != plan.digest):
        store.delete([places.metadata])
        raise RequestError(
            "the result was discarded while it was to be published; nothing was published",
            path=plan.target,
            advice="run the same command again when that has ended",
        )
    return Published(plan.target, sha256, already, certificate.proof)


def is_published(plan: Plan) -> bool:
    """Whether the target's `_metadata` is this plan's candidate already."""
    places = places_of(plan)
    return (
        state_of(plan.target, plan.digest) is State.PUBLISHED
        and open_store(places.candidate).stat(places.candidate) is not None
        and read_document(places.metadata) == read_document(places.candidate)
    )
