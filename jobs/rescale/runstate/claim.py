"""The claim on a target: one plan at a time owns it.

After a run has stored its plan, it writes the claim, which names the plan, unless the target already has a claim. A run
of the same plan resumes; a run of another plan is refused before it writes a byte. If a store ignored the condition
"write only if absent", two runs could mix their files. So a run tests the condition on a probe file first.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from rescale.plan.new_streams import CompactedDirectory, RekeyedDirectory
from rescale.plan.plan import Plan
from rescale.runstate.certificate import certificate_beside
from rescale.runstate.documents import document_sha256, load_plan, store_plan
from rescale.runstate.places import (
    Places,
    certificate_place,
    is_prepared_file,
    places_of,
    prepared_place,
    probe_place,
    short_digest_in_name,
)
from rescale.runstate.states import State, Transition, claim_on, digest_of_claim, is_being_discarded, permit, state_of
from rescale.runstate.target_safety import mark_documents, refuse_misplaced, refuse_unsafe_target
from rescale.snapshot.reading.discovery import METADATA
from rescale.storage.files.temporary_files import is_temporary
from rescale.storage.locations import contains, join, name
from rescale.storage.store import Store, exists, open_store
from rescale.text.advice import Advice, command, mention
from rescale.text.errors import LockedError, RequestError, RescaleError, UnsupportedError
from rescale.text.names import quoted

WITHOUT_CONDITIONS_ADVICE = Advice(
    "use a store that honours If-None-Match; or make sure that no other run has this target, and use ",
    mention("accept-unconditional-publish"),
)
"""Advice for a store that ignores the condition of a put-if-absent."""


def claim(
    plan: Plan,
    *,
    accept_unconditional: bool = False,
    run_identity: Mapping[str, str] | None = None,
    is_last_round: bool = False,
) -> None:
    """Store the plan beside its target and claim the target for it, unless the plan has claimed it before.

    The claim records the time and `run_identity`; errors of refused runs show both. With `is_last_round`, it also
    records that this run is the last round of the target's follower; the follower may discard such a run.

    Raises `RequestError` if another plan has claimed the target, or if the target holds files that are not this plan's.
    Raises `UnsupportedError` if the store ignores conditional writes, unless `accept_unconditional` is set.
    """
    store, place = open_store(plan.target), places_of(plan).claim
    refuse_unavailable_target(plan)
    mark_documents(plan.target)
    store_plan(plan)
    claimant_fields = (
        {"by": dict(run_identity), "at": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"} if run_identity else {}
    )
    last_round_field = {"last_round": True} if is_last_round else {}
    document = json.dumps(
        {"plan": plan.digest, "source": plan.source, **claimant_fields, **last_round_field}, indent=1
    ).encode()
    if store.stat(place) is None:
        if accept_unconditional:
            store.put(place, document)
        else:
            _probe_conditions(store, plan.target)
            store.put_if_absent(place, document)
    permit(plan, Transition.ASK)


def source_of_run(source: str, target: str, run_identity: Mapping[str, str]) -> str:
    """Return the source of the plan for which an earlier try of this run has claimed the target; else `source`.

    `source` may be a job's directory of checkpoints. If the next try took the newest checkpoint in this directory, it
    would have another plan than the earlier try, and could not resume.
    """
    earlier_claim = claim_on(target)
    if earlier_claim is None or earlier_claim.by != run_identity:
        return source
    plan_uri = Places(target, earlier_claim.plan_digest).plan
    planned_source = load_plan(plan_uri).source if exists(plan_uri) else source
    return planned_source if contains(source, planned_source) and exists(join(planned_source, METADATA)) else source


def _probe_conditions(store: Store, target: str) -> None:
    """Raise `UnsupportedError` if the store ignores conditional writes, as a test with a probe beside the target shows.

    A test with the claim itself could overwrite the claim of another run.
    """
    name = uuid.uuid4().hex
    probe_uri, data = probe_place(target, f"{name}-conditional"), name.encode()
    honours_conditions = store.put_if_absent(probe_uri, data) and store.honours_conditions(probe_uri, data)
    with suppress(LockedError):  # S3 Object Lock may keep the probe, which does no harm
        store.delete([probe_uri])
    if not honours_conditions:
        raise UnsupportedError(
            "the store ignores the condition of a put-if-absent, so two runs could overwrite each other",
            path=target,
            advice=WITHOUT_CONDITIONS_ADVICE,
        )


def refuse_unavailable_target(plan: Plan) -> None:
    """Raise `RequestError` if no run of the plan can start or resume in its target. Write nothing."""
    refuse_unsafe_target(plan)
    state = state_of(plan.target, plan.digest)
    if state is State.FREE:
        refuse_misplaced(plan.target)
    if state not in (State.TAKEN, State.GONE):  # in these states, `permit` raises the error
        _refuse_unplanned_files(plan, open_store(plan.target))
    permit(plan, Transition.CLAIM)
    if is_being_discarded(plan.target):
        raise RequestError(
            "a discard of this target has started and not ended",
            path=plan.target,
            advice=Advice(
                "wait for it, or finish it if it was interrupted: ",
                command("discard", quoted(plan.target)),
                "; then run this again",
            ),
        )


@dataclass(frozen=True)
class PlannedNames:
    """Names of the files of a result.

    For rewritten or compacted RocksDB directories, only prefixes are known in advance.
    """

    names: frozenset[str]
    name_prefixes: tuple[str, ...]

    def __contains__(self, file: str) -> bool:
        return file in self.names or file.startswith(self.name_prefixes)


def planned_names(plan: Plan) -> PlannedNames:
    """Return the names of all files that the plan's result may hold, except `_metadata`."""
    names_and_streams = [
        (plan.file_name(operator, stream), stream) for operator in plan.operators for stream in operator.new_streams
    ]
    name_prefixes = tuple(
        f"{file}-" for file, stream in names_and_streams if isinstance(stream, RekeyedDirectory | CompactedDirectory)
    )
    return PlannedNames(frozenset(file for file, _ in names_and_streams), name_prefixes)


def _refuse_unplanned_files(plan: Plan, store: Store) -> None:
    names = planned_names(plan)
    entries = [entry for entry in store.list(plan.target) if not is_temporary(name(plan.target), name(entry.uri))]
    unplanned_files = [
        entry.uri for entry in entries if name(entry.uri) != "_metadata" and name(entry.uri) not in names
    ]
    if unplanned_files and exists(prepared_place(plan.target)):  # the run removes files that were copied ahead
        unplanned_files = [uri for uri in unplanned_files if not is_prepared_file(name(uri))]
    is_published = any(name(entry.uri) == "_metadata" for entry in entries)
    if is_published and digest_of_claim(plan.target) != plan.digest:
        unplanned_files.append(places_of(plan).metadata)
    if unplanned_files:
        raise RequestError(
            "the target is occupied",
            path=plan.target,
            expected="an empty or absent directory",
            found=_published_result_phrase(plan.target, is_published)
            or f"other files ({len(unplanned_files)}), such as {min(unplanned_files)}",
            advice=_occupied_advice(plan.target, is_published, unplanned_files),
        )


def _published_result_phrase(target: str, is_published: bool) -> str | None:
    """Return a phrase that names the plan of the existing `_metadata`; None if no certificate names the file."""
    if not is_published:
        return None
    try:
        certificate = certificate_beside(target)
        published_sha256 = document_sha256(Places(target, "").metadata)
    except RescaleError:  # the caller's error about the occupied target matters more
        return None
    if certificate is None or certificate.candidate_sha256 != published_sha256:
        return None
    return f"a published result of plan {(certificate.plan or '')[:8]} (see {certificate_place(target)})"


def _occupied_advice(target: str, is_published: bool, unplanned_files: Sequence[str]) -> str:
    if is_published:
        return "name another target"
    if not any(short_digest_in_name(name(uri)) for uri in unplanned_files):
        return "name another target, or move these files away: Rescale did not write them, so discard keeps them"
    return Advice("name another target, or remove what an unpublished run left: ", command("discard", quoted(target)))
