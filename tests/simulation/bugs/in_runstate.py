"""Bugs in the protocol of a run on its target."""

# ruff: noqa: ARG001, ARG005 (a replacement takes the arguments of the replaced function)

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rescale.plan.plan import Plan
from rescale.runstate import (
    certificate,
    certified_files,
    claim,
    documents,
    leftovers,
    publication,
    removal,
    states,
    written_handles,
)
from rescale.runstate.candidate import StoredCandidate, build_candidate, put_candidate
from rescale.runstate.certificate import Certificate, read_certificate
from rescale.runstate.documents import read_document
from rescale.runstate.places import places_of
from rescale.runstate.publication import Published, is_published, publish
from rescale.runstate.states import State, Transition, digest_of_claim, permit, state_of
from rescale.runstate.written_handles import WrittenHandles, _missing_files, begin_moving, read_handles
from rescale.storage.store import open_store
from rescale.text.errors import StoreError
from simulation.bugs.planting import Bug, attribute_planter, both, do_nothing, function_planter

_state_under = states._state_under
_claim = claim.claim
_refuse_discarded = publication._refuse_discarded


def _allow_any_transition(plan: Plan, move: Transition) -> State:
    return state_of(plan.target, plan.digest)


def _accept_any_holder(target: str, digest: str | None, holder: str | None) -> State:
    state = _state_under(target, digest, holder)
    return State.CLAIMED if state is State.TAKEN else state


def _claim_unconditionally(plan: Plan, **_: Any) -> None:
    _claim(plan, accept_unconditional=True)


def _claim_last(plan: Plan, **_: Any) -> None:
    """Claim the target after the plan is stored, even if another run has claimed it."""
    claim.store_plan(plan)
    open_store(plan.target).put(places_of(plan).claim, f'{{"plan": "{plan.digest}"}}'.encode())


def _is_published_with_any_metadata(plan: Plan) -> bool:
    return open_store(plan.target).stat(places_of(plan).metadata) is not None


def _certificate_of_any_plan(plan: Plan) -> Certificate:
    return read_certificate(plan.target)


def _certificate_of_any_candidate(plan: Plan) -> Certificate:
    stored = certificate.certificate_for(plan)
    return replace(stored, candidate_sha256=hashlib.sha256(read_document(places_of(plan).candidate)).hexdigest())


def _publish_without_certificate(plan: Plan, **_: Any) -> Any:
    places = places_of(plan)
    open_store(plan.target).put_if_absent(places.metadata, read_document(places.candidate))


def _keep_first_candidate(plan: Plan, source: Any) -> StoredCandidate:
    """Keep the candidate of an earlier try."""
    uri = places_of(plan).candidate
    if open_store(uri).stat(uri) is None:
        return put_candidate(plan, source)
    return StoredCandidate(uri, hashlib.sha256(read_document(uri)).hexdigest())


def _read_handles_unchecked(plan: Plan, step: str, existing_sizes: Mapping[str, int]) -> WrittenHandles | None:
    permit(plan, Transition.MOVE)
    return read_handles(plan, step)


def _ignore_sizes(plan: Plan, files: Mapping[str, int], existing_sizes: Mapping[str, int]) -> list[str]:
    return _missing_files(plan, files, {name: files.get(name, 0) for name in existing_sizes})


def _missing_by_listing(plan: Plan, files: Mapping[str, int], existing_sizes: Mapping[str, int]) -> list[str]:
    return sorted(file for file, size in files.items() if existing_sizes.get(file) != size)


def _compare_sizes_only(target: str, files: Any) -> Any:
    for file in files:
        entry = open_store(target).stat(file.uri(target))
        if entry is None or entry.size != file.size:
            yield file, entry


def _without_a_coordinator(source: Any, plan: Plan, written: Any) -> bytes:
    """Leave out the coordinator of an operator."""
    operators = tuple(replace(operator, coordinator=None) for operator in source.operators)
    return build_candidate(replace(source, operators=operators), plan, written)


def _absent_if_unanswered(target: str) -> str | None:
    """Treat a store that does not answer as an empty one."""
    try:
        return digest_of_claim(target)
    except StoreError:
        return None


def _ignore_marks(target: str, digest: str | None, holder: str | None) -> State:
    """Ignore the marks of a publication: CERTIFIED takes the place of PUBLISHING, GONE and EMPTIED."""
    state = _state_under(target, digest, holder)
    return State.CERTIFIED if state in (State.PUBLISHING, State.GONE, State.EMPTIED) else state


def _publish_without_second_mark(plan: Plan, **_: Any) -> Published:
    """Publish without the mark that follows `_metadata`, but with the mark that precedes it."""
    published = publish(plan)
    open_store(plan.target).delete([places_of(plan).published])
    return published


def _remove_mark_too_early(plan: Plan, held: Any) -> None:
    """Remove the mark that precedes `_metadata` before `_metadata` is put."""
    _refuse_discarded(plan, held)
    open_store(plan.target).delete([places_of(plan).publishing])


def _check_claim_before_note(plan: Plan, held: Any) -> None:
    """Check the claim before the note of `discard`: a whole discard may happen between the two checks."""
    if publication._claim_on(plan) != held or publication.is_being_discarded(plan.target):
        _refuse_discarded(plan, held)


def _discard_anything(target: str, *, keeps_follower: bool = False) -> removal.DiscardAnswer:
    store = open_store(target)
    existing_uris = [entry.uri for entry in (*store.list(target), *store.list(f"{target}.rescale"))]
    store.delete(existing_uris)
    return removal.DiscardAnswer(tuple(existing_uris), ())


def _contains_whole_names_only(self: claim.PlannedNames, file: object) -> bool:
    """Treat a file as foreign if RocksDB chose its name."""
    return file in self.names


def _without_reread(work: Any, side: Any = None) -> Any:
    return work()


_single_read_planter = both(
    attribute_planter(documents, "read_again_on_failure", _without_reread),
    both(
        attribute_planter(states, "read_again_on_failure", _without_reread),
        attribute_planter(publication, "read_again_on_failure", _without_reread),
    ),
)

BUGS = [
    Bug("every transition is allowed in every state", function_planter(permit, _allow_any_transition)),
    Bug(
        "a target that another plan holds counts as own", attribute_planter(states, "_state_under", _accept_any_holder)
    ),
    Bug(
        "a store that does not answer counts as empty",
        attribute_planter(states, "digest_of_claim", _absent_if_unanswered),
    ),
    Bug("claim: put even if another plan holds the target", function_planter(claim.claim, _claim_last)),
    Bug("claim: the condition is not sent", function_planter(claim.claim, _claim_unconditionally)),
    Bug("written handles are trusted, whatever files exist", function_planter(begin_moving, _read_handles_unchecked)),
    Bug(
        "written handles are trusted, whatever the sizes",
        attribute_planter(written_handles, "_missing_files", _ignore_sizes),
    ),
    Bug(
        "a file that a listing misses counts as gone",
        attribute_planter(written_handles, "_missing_files", _missing_by_listing),
    ),
    Bug("the candidate of an earlier try stays", function_planter(put_candidate, _keep_first_candidate)),
    Bug("the candidate has no coordinator state", function_planter(build_candidate, _without_a_coordinator)),
    Bug(
        "any target with a `_metadata` counts as published",
        function_planter(is_published, _is_published_with_any_metadata),
    ),
    Bug(
        "publish: the certificate of another plan is accepted",
        attribute_planter(publication, "certificate_for", _certificate_of_any_plan),
    ),
    Bug(
        "publish: any candidate is accepted",
        attribute_planter(publication, "certificate_for", _certificate_of_any_candidate),
    ),
    Bug("publish: no file is checked", attribute_planter(publication, "check_files", do_nothing)),
    Bug(
        "publish: only sizes of files count", attribute_planter(certified_files, "_changed_files", _compare_sizes_only)
    ),
    Bug("publish: open uploads stay", attribute_planter(publication, "clear_leftovers", do_nothing)),
    Bug("publish: needs no certificate", function_planter(publish, _publish_without_certificate)),
    Bug("publish: documents are read only once", _single_read_planter),
    Bug(
        "claim: files that RocksDB named count as foreign",
        attribute_planter(claim.PlannedNames, "__contains__", _contains_whole_names_only),
        native=True,
    ),
    Bug("a certificate has no digest of its own", attribute_planter(certificate, "_digest", lambda fields: "")),
    Bug("discard: open uploads stay", attribute_planter(removal, "clear_leftovers", do_nothing)),
    Bug(
        "discard: all that lies beside the target is a document",
        attribute_planter(removal, "is_document", lambda target, uri: True),
    ),
    Bug(
        "publish: open uploads of others are aborted",
        attribute_planter(leftovers, "short_digest_in_name", lambda name: ""),
    ),
    Bug("discard: a published result is removed, too", function_planter(removal.discard, _discard_anything)),
    Bug(
        "publish: does not look for discard", attribute_planter(publication, "is_being_discarded", lambda target: False)
    ),
    Bug("marks of publication are ignored", attribute_planter(states, "_state_under", _ignore_marks)),
    Bug("publish: no mark behind `_metadata`", function_planter(publish, _publish_without_second_mark)),
    Bug(
        "publish: no mark before `_metadata`",
        attribute_planter(publication, "_refuse_discarded", _remove_mark_too_early),
    ),
    Bug(
        "publish: checks the claim before a discard",
        attribute_planter(publication, "_refuse_discarded", _check_claim_before_note),
    ),
    Bug("discard: files put after the claim stay", attribute_planter(removal, "_noted_plan_digest", do_nothing)),
    Bug("discard: files of state stay", attribute_planter(removal, "planned_names", lambda plan: ())),
]
