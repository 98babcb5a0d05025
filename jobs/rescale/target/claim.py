"""The claim on a target: one plan at a time owns it.

It is the first thing that a run writes after its plan, put only if absent, and it names the plan. The same plan
may go on (it resumes), another one is turned away before it writes a byte. A store that lets a conditional put
overwrite would let two runs mix, so it is found out here, before anything else is written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rescale.errors import RequestError, RescaleError, UnsupportedError
from rescale.names import quoted
from rescale.planning.values.new_streams import CompactedRows, RekeyedRows
from rescale.planning.values.plan import Plan
from rescale.storage.files.temporary_files import is_temporary
from rescale.storage.locations import name
from rescale.storage.store import Store, open_store
from rescale.target.certificate import certificate_beside
from rescale.target.documents import read_document, store_plan
from rescale.target.places import Places, certificate_place, places_of, plan_in_name
from rescale.target.states import Move, State, claimed_by, is_being_discarded, permit, state_of


def claim(plan: Plan, *, accept_unconditional: bool = False, by: Mapping[str, str] | None = None) -> None:
    """Stores the plan beside its target and takes the target for it, or finds it taken by it already.

    `by` names the run, for whoever is turned away: the claim keeps it, and the time.
    `RequestError` if the target holds anything that is not this plan's; `UnsupportedError` if the store ignores
    conditions, unless that is accepted.
    """
    store, place = open_store(plan.target), places_of(plan).claim
    refuse_taken(plan)
    store_plan(plan)
    who = {"by": dict(by), "at": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"} if by else {}
    document = json.dumps({"plan": plan.digest, "source": plan.source, **who}, indent=1).encode()
    if accept_unconditional:
        if store.stat(place) is None:
            store.put(place, document)
    elif store.put_if_absent(place, document) and not store.honours_conditions(place, document):
        store.delete([place])
        raise UnsupportedError(
            "the store ignores the condition of a put-if-absent, so two runs could overwrite each other",
            path=plan.target,
            advice="use a store that honours If-None-Match, or see to it yourself that no other run has this target "
            "and say --accept-unconditional-publish",
        )
    permit(plan, Move.MOVE)


def refuse_taken(plan: Plan) -> None:
    """`RequestError` if no run of the plan can begin, or go on, in its target. Nothing is written."""
    if state_of(plan.target, plan.digest) not in (State.TAKEN, State.GONE):  # else it is known whose the files are
        _refuse_foreign_files(plan, open_store(plan.target))
    permit(plan, Move.CLAIM)
    if is_being_discarded(plan.target):
        raise RequestError(
            "what lies in the target is being discarded, or was begun to be",
            path=plan.target,
            advice=f"when nobody is at it any more, end it and run this again: rescale discard {quoted(plan.target)}",
        )


@dataclass(frozen=True)
class PlannedNames:
    """The names of files, and what others begin with: those of RocksDB directories that are known when written."""

    whole: frozenset[str]
    beginnings: tuple[str, ...]

    def __contains__(self, file: str) -> bool:
        return file in self.whole or file.startswith(self.beginnings)


def planned_names(plan: Plan) -> PlannedNames:
    """Of all files that the plan's result may hold, `_metadata` apart."""
    named = [(plan.file_name(operator, one), one) for operator in plan.operators for one in operator.new_streams]
    directories = tuple(f"{file}-" for file, stream in named if isinstance(stream, RekeyedRows | CompactedRows))
    return PlannedNames(frozenset(file for file, _ in named), directories)


def _refuse_foreign_files(plan: Plan, store: Store) -> None:
    ours = planned_names(plan)
    if store.stat(plan.target) is not None:
        raise RequestError("the target is a file", path=plan.target, advice="name a directory that does not exist yet")
    entries = [entry for entry in store.list(plan.target) if not is_temporary(name(plan.target), name(entry.uri))]
    foreign = [entry.uri for entry in entries if name(entry.uri) != "_metadata" and name(entry.uri) not in ours]
    published = any(name(entry.uri) == "_metadata" for entry in entries)
    if published and claimed_by(plan.target) != plan.digest:
        foreign.append(places_of(plan).metadata)
    if foreign:
        raise RequestError(
            "the target is occupied",
            path=plan.target,
            expected="an empty or absent directory",
            found=_published_before(plan.target, published) or f"other files ({len(foreign)}), such as {min(foreign)}",
            advice=_other_target(plan.target, published, foreign),
        )


def _published_before(target: str, published: bool) -> str | None:
    """Whose the `_metadata` is that is there, as far as a certificate tells."""
    if not published:
        return None
    try:
        certificate = certificate_beside(target)
        found = hashlib.sha256(read_document(Places(target, "").metadata)).hexdigest()
    except RescaleError:  # it is about a word
        return None
    if certificate is None or certificate.candidate_sha256 != found:
        return None
    return f"a published result of plan {(certificate.plan or '')[:8]} (see {certificate_place(target)})"


def _other_target(target: str, published: bool, foreign: Sequence[str]) -> str:
    """What no run of ours has written is not discarded either."""
    if published:
        return "name another target"
    if not any(plan_in_name(name(uri)) for uri in foreign):
        return "name another target, or take these files away: no run has written them, and discard leaves them"
    return f"name another target, or remove what an unpublished run left: rescale discard {quoted(target)}"
