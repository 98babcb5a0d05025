"""The last step and its opposite: `publish` makes the result a checkpoint, `discard` takes an unfinished one away."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from rescale.errors import IntegrityError, RequestError
from rescale.planning.places import Places, beside, claim_place, is_document
from rescale.planning.plan import Plan
from rescale.storage.locations import join, name
from rescale.storage.store import open_store
from rescale.target.claim import DOCUMENT_LIMIT, check_claim, claimed_by, load_plan, planned_names


@dataclass(frozen=True)
class Published:
    """A result that Flink can restore; `sha256` is that of its `_metadata`, `already` if it stood there before."""

    target: str
    sha256: str
    already: bool


def publish(plan: Plan, *, accept_unconditional: bool = False) -> Published:
    """Puts exactly the bytes that the certificate names as `_metadata`, if absent, and nothing else."""
    check_claim(plan)
    places, store = plan.places, open_store(plan.target)
    certificate = _certificate(plan)
    candidate, _ = store.read_all(places.candidate, DOCUMENT_LIMIT)
    sha256 = hashlib.sha256(candidate).hexdigest()
    if certificate["candidate_sha256"] != sha256:
        raise IntegrityError(
            "the candidate is not the one that was validated; nothing was published",
            path=places.candidate,
            expected=certificate["candidate_sha256"],
            found=sha256,
            advice="run the same command again: it validates again",
        )
    already = store.stat(places.metadata) is not None
    if not accept_unconditional:
        ours = store.put_if_absent(places.metadata, candidate)
    else:  # without any conditional request: the store may not even know them
        if not already:
            store.put(places.metadata, candidate)
        ours = store.read_all(places.metadata, DOCUMENT_LIMIT)[0] == candidate
    if not ours:
        raise RequestError(
            "the target holds another published result",
            path=places.metadata,
            expected=f"none, or one with SHA-256 {sha256}",
            advice="name another target",
        )
    return Published(plan.target, sha256, already)


def is_published(plan: Plan) -> bool:
    """Whether the target's `_metadata` is this plan's candidate already."""
    places, store = plan.places, open_store(plan.target)
    if store.stat(places.metadata) is None or store.stat(places.candidate) is None:
        return False
    published, _ = store.read_all(places.metadata, DOCUMENT_LIMIT)
    candidate, _ = store.read_all(places.candidate, DOCUMENT_LIMIT)
    return claimed_by(plan.target) == plan.digest and published == candidate


@dataclass(frozen=True)
class Discarded:
    """What `discard` removed, and what it left because it is not ours."""

    removed: tuple[str, ...]
    left: tuple[str, ...]


def discard(target: str) -> Discarded:
    """Removes what an unpublished run left in and beside the target; the claim goes last, so that it can be repeated.

    `RequestError` if the target is published, or if nothing says that what lies there is ours.
    """
    store = open_store(target)
    there = [entry.uri for entry in store.list(target)]
    if join(target, "_metadata") in there:
        raise RequestError(
            "the target is published, and discard only removes what an unpublished run left",
            path=target,
            advice="if you want it gone, delete the directory yourself",
        )
    digest = claimed_by(target)
    lying_beside = [entry.uri for entry in store.list(beside(target))]
    documents = [uri for uri in lying_beside if is_document(target, uri)]
    if digest is None:
        if there and not documents:
            raise RequestError("nothing of ours lies here", path=target, found=f"{len(there)} files, none claimed")
        ours = []
    else:
        planned = planned_names(load_plan(Places(target, digest).plan)) if there else set()
        ours = [uri for uri in there if name(uri) in planned]
    store.abort_parts(target)
    claim_uri = claim_place(target)
    plans = [uri for uri in documents if name(uri).startswith("plan-")]
    others = [uri for uri in documents if uri != claim_uri and uri not in plans]
    for batch in (ours, others, [claim_uri], plans):
        store.delete(batch)
    removed = (*ours, *documents)
    return Discarded(removed, tuple(sorted({*there, *lying_beside} - {*removed})))


def _certificate(plan: Plan) -> dict[str, str]:
    places, store = plan.places, open_store(plan.target)
    if store.stat(places.certificate) is None:
        raise RequestError("nothing to publish: the result was not validated", path=places.certificate)
    document, _ = store.read_all(places.certificate, DOCUMENT_LIMIT)
    certificate: dict[str, str] = json.loads(document)
    if certificate["plan"] != plan.digest:
        raise IntegrityError(
            "the certificate is another plan's; nothing was published",
            path=places.certificate,
            expected=plan.digest,
            found=certificate["plan"],
        )
    return certificate
