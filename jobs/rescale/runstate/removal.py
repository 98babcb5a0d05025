"""Removes the files that an unpublished run left: `discard`, the opposite of publication."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from rescale.runstate.claim import planned_names
from rescale.runstate.documents import load_plan, read_document
from rescale.runstate.follower.removal import remove_follower
from rescale.runstate.leftovers import clear_leftovers
from rescale.runstate.places import (
    Places,
    certificate_place,
    copies_place,
    cut_over_place,
    discarding_place,
    follower_place,
    is_document,
    is_follower_file,
    is_prepared_file,
    prepared_place,
    run_directory,
    short_digest_in_name,
)
from rescale.runstate.states import (
    TRANSITIONS,
    State,
    Transition,
    claim_on,
    digest_of_claim,
    is_being_discarded,
    refuse_unless_allowed,
    state_of,
)
from rescale.runstate.target_safety import is_same_place, mark_documents
from rescale.storage.locations import name
from rescale.storage.store import existing, exists, open_store
from rescale.text.advice import Advice, command
from rescale.text.errors import RequestError, SnapshotError, StoreError
from rescale.text.names import encodable, quoted
from rescale.text.units import counted

_NOTE_TEXT = "the files of plan {} in this target are being discarded\n"
_PLAN_DIGEST = re.compile(rb"[0-9a-f]{64}")

_FILES_BETWEEN_CHECKS = 500
"""Number of files deleted between two checks that the files still belong to the discarded plan."""

_MAX_LISTINGS = 3
"""Number of listings with new files after which `discard` gives up.

A first listing may be outdated, so one listing with new files proves nothing; more mean that the run is still active.
"""


class DiscardAnswer(msgspec.Struct, frozen=True):
    """URIs of the files that `discard` removed, and of those that it kept because no run had written them.

    Bytes of a name that are not UTF-8 are escaped.
    """

    removed: tuple[str, ...]
    left: tuple[str, ...]


def discard(target: str, *, keeps_follower: bool = False) -> DiscardAnswer:
    """Remove the files that an unpublished run left in and beside the target; claim, plans and note go last.

    The files of a follower of the target, and the files that were copied ahead, are removed too, unless
    `keeps_follower`.

    An interrupted discard can be repeated. It writes its note first, and then checks the target again. A run that is
    still active has either written its `publishing` mark by then, or will see the note and not publish.

    Raises `RequestError` if the target is or may have been published, if the documents are those of another target, if
    nothing shows that the files are Rescale's, or if new files keep appearing.
    """
    mark_documents(target)
    digest = digest_of_claim(target)
    _refuse_copied_documents(target, digest)
    # A discard that was killed may have removed the claim; then only its note names the plan.
    plan_digest = digest or _noted_plan_digest(target)
    state = state_of(target, digest)
    _refuse_undiscardable(state, target)
    listing = _list_files(target, keeps_prepared=keeps_follower)
    files = _files_of_the_plan(listing, digest, state)
    files_of_follower = remove_follower(target) if listing.has_follower and not keeps_follower else []
    if digest is not None:
        _put_note(Places(target, digest))
        _refuse_undiscardable(state_of(target, digest), target)
    _refuse_overtaken(target, plan_digest)
    clear_leftovers(Places(target, ""))
    _remove_documents(listing, plan_digest)
    _remove_files(target, files, plan_digest)
    if plan_digest is not None and state is not State.EMPTIED:
        files += _remove_new_files(target, plan_digest)
    _remove_last_batches(listing, plan_digest)
    removed_files = (*files, *files_of_follower, *listing.documents)
    left_files = existing(sorted({*listing.target_uris, *listing.run_directory_uris} - {*removed_files}))
    return DiscardAnswer(removed_files, tuple(map(encodable, left_files)))


def _refuse_copied_documents(target: str, digest: str | None) -> None:
    """Raise `RequestError` if the claiming plan has another target: then the documents were copied or moved here.

    If the plan cannot be read, raise nothing: `_files_of_the_plan` raises the error, if it needs the plan.
    """
    if digest is None or not exists(uri := Places(target, digest).plan):
        return
    try:
        planned_target = load_plan(uri).target
    except SnapshotError:
        return
    if not is_same_place(planned_target, target):
        raise RequestError(
            "the documents beside the target were copied or moved here: they belong to a run with another target",
            path=run_directory(target),
            expected=f"documents of a run to {target}",
            found=planned_target,
            advice="discard the target of that run; if this copy is not needed, remove it yourself",
        )


@dataclass(frozen=True)
class _Listing:
    """The files in a target and in the directory beside it.

    `run_directory_uris` are the files in the directory beside the target, without those of the target's follower. The
    follower's files can be recognised only while one of its documents exists. `documents` are the files in
    `run_directory_uris` that a run wrote.
    """

    target: str
    target_uris: tuple[str, ...]
    run_directory_uris: tuple[str, ...]
    documents: tuple[str, ...]
    has_follower: bool

    @property
    def last_batches(self) -> tuple[list[str], ...]:
        """Batches of files that are removed after all others, in this order; the note of the discard is the last."""
        places = Places(self.target, "")
        plan_uris = [uri for uri in self.documents if name(uri).startswith(("plan-", "question-", "approval-"))]
        late_uris = [*plan_uris, places.publishing, *({prepared_place(self.target)} & {*self.documents})]
        return [places.published], [places.claim], late_uris, [discarding_place(self.target)]

    @property
    def prepared_uris(self) -> list[str]:
        """Files that were copied ahead into the target; none if it is not prepared."""
        is_prepared = prepared_place(self.target) in self.documents
        return [uri for uri in self.target_uris if is_prepared and is_prepared_file(name(uri))]


def _list_files(target: str, *, keeps_prepared: bool) -> _Listing:
    """List the files; with `keeps_prepared`, without those that were copied ahead."""
    store = open_store(target)
    target_uris, run_directory_uris = (
        tuple(entry.uri for entry in store.list(place)) for place in (target, run_directory(target))
    )
    has_follower = not {follower_place(target), cut_over_place(target)}.isdisjoint(run_directory_uris)
    other_uris = tuple(uri for uri in run_directory_uris if not (has_follower and is_follower_file(target, uri)))
    if keeps_prepared:
        target_uris = tuple(uri for uri in target_uris if not is_prepared_file(name(uri)))
        preparation_documents = (prepared_place(target), copies_place(target))
        other_uris = tuple(uri for uri in other_uris if uri not in preparation_documents)
    documents = tuple(uri for uri in other_uris if is_document(target, uri))
    return _Listing(target, target_uris, other_uris, documents, has_follower)


def _files_of_the_plan(listing: _Listing, digest: str | None, state: State) -> list[str]:
    """Return the files in the target that belong to the claiming plan.

    Without a claim, return only prepared files. If the plan's document is gone, return none: then the files are removed
    later, because their names contain the plan's digest (`_remove_new_files`). Raises `RequestError` if nothing shows
    that the files are Rescale's.
    """
    if digest is None:
        if listing.target_uris and not listing.documents and not listing.has_follower:
            raise _not_ours_error(listing.target, listing.target_uris)
        return listing.prepared_uris
    if state is State.EMPTIED:
        refuse_unless_allowed(State.GONE if listing.target_uris else state, Transition.DISCARD, listing.target)
        return []
    if not listing.target_uris:
        return []
    plan_uri = Places(listing.target, digest).plan
    # If the plan is missing, a discard has removed it, and a slow run of that plan has put its claim afterwards.
    if not exists(plan_uri):
        return []
    # A damaged plan is an error: it may name other files, and then the run's own files would stay.
    names_of_plan = planned_names(load_plan(plan_uri))
    return [uri for uri in listing.target_uris if name(uri) in names_of_plan or uri in listing.prepared_uris]


def _remove_documents(listing: _Listing, plan_digest: str | None) -> None:
    """Remove all documents except `listing.last_batches`; the certificate goes before the documents that it names."""
    target, places = listing.target, [certificate_place(listing.target)]
    if certificate := existing(places):
        _remove(certificate, target, plan_digest)
    last_uris = [uri for batch in listing.last_batches for uri in batch]
    _remove([uri for uri in listing.documents if uri not in (*places, *last_uris)], target, plan_digest)


def _remove_files(target: str, files: Sequence[str], plan_digest: str | None) -> None:
    for start in range(0, len(files), _FILES_BETWEEN_CHECKS):
        _remove(files[start : start + _FILES_BETWEEN_CHECKS], target, plan_digest)


def _remove_last_batches(listing: _Listing, plan_digest: str | None) -> None:
    for batch in listing.last_batches:
        _remove(existing(batch), listing.target, plan_digest)


def _remove(uris: Sequence[str], target: str, plan_digest: str | None) -> None:
    """Delete files; raise the error of `_refuse_overtaken` if they may belong to a new run."""
    _refuse_overtaken(target, plan_digest)
    open_store(target).delete(uris)


def _noted_plan_digest(target: str) -> str | None:
    """Return the digest of the plan that is being discarded; None if there is no note, or if the note names no plan."""
    note_uri = discarding_place(target)
    match = _PLAN_DIGEST.search(read_document(note_uri)) if is_being_discarded(target) else None
    return match[0].decode() if match else None


def _put_note(places: Places) -> None:
    """Write the note of the discard.

    If that fails, as on a full disk, remove staged files, the report and the plan's page, and try again.
    """
    note_uri = discarding_place(places.target)
    store, text = open_store(places.target), _NOTE_TEXT.format(places.digest).encode()
    try:
        store.put(note_uri, text)
    except StoreError:
        clear_leftovers(places)
        _delete_existing([places.report, places.report_data, places.plan_page], places.target)
        store.put(note_uri, text)


def _refuse_undiscardable(state: State, target: str) -> None:
    """Raise `RequestError` if nothing may be discarded in this state; the note of the discard is removed first."""
    if Transition.DISCARD not in TRANSITIONS[state]:
        _delete_existing([discarding_place(target)], target)
    refuse_unless_allowed(state, Transition.DISCARD, target)


def _refuse_overtaken(target: str, digest: str | None) -> None:
    """Raise `RequestError` if a run has claimed the target, or another discard has ended, since this discard began.

    `digest` is that of the discarded plan; None if the target had no claim when this discard began.
    """
    if digest is None and (claim := claim_on(target)) is not None:
        raise RequestError(
            "a run has claimed the target since this discard began",
            path=target,
            found=claim,
            advice=Advice("check that run; to remove its files as well: ", command("discard", quoted(target))),
        )
    if digest is not None and not is_being_discarded(target):
        raise RequestError(
            "another discard of this target has ended since this one began",
            path=target,
            advice=Advice("check which files are left; to remove them as well: ", command("discard", quoted(target))),
        )


def _delete_existing(uris: Sequence[str], target: str) -> None:
    """Delete the files that exist: a bucket policy may refuse to delete an object that is not there."""
    open_store(target).delete(existing(uris))


def _remove_new_files(target: str, digest: str) -> list[str]:
    """Remove files with the plan's digest in their names, which a task of the run has written since the listing.

    Raises `RequestError` if new files keep appearing. Then the claim and the note remain, so that no run starts in the
    target.
    """
    store = open_store(target)
    removed_uris: list[str] = []
    for _ in range(_MAX_LISTINGS):
        new_uris = [entry.uri for entry in store.list(target) if short_digest_in_name(name(entry.uri)) == digest[:8]]
        if not new_uris:
            return removed_uris
        _remove_files(target, new_uris, digest)
        removed_uris += new_uris
    raise RequestError(
        "the run that is being discarded is still active: it writes new files",
        path=target,
        found=f"{len(removed_uris)} new files, which were removed; the last is {removed_uris[-1]}",
        advice=Advice("end that run, then remove its files: ", command("discard", quoted(target))),
    )


def _not_ours_error(target: str, target_uris: Sequence[str]) -> RequestError:
    late_files = [uri for uri in target_uris if short_digest_in_name(name(uri)) is not None]
    if not late_files:
        return RequestError(
            "no run of Rescale has left files here",
            path=target,
            found=f"{counted(len(target_uris), 'file')}, and no claim on the target",
            advice="name the target of a run, not the directory of documents beside it; files of others are kept",
        )
    return RequestError(
        "the files have names like those of a run, but no claim shows that they may be removed",
        path=target,
        found=f"{counted(len(late_files), 'file')} of plan {short_digest_in_name(name(late_files[0]))} or of other "
        f"plans, such as {late_files[0]}",
        advice="a run that was still active after its discard leaves such files, and so does a published result that "
        "was moved: remove them yourself if nothing refers to them, or repeat that run, which takes them over",
    )
