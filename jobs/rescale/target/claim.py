"""The claim on a target: one plan at a time owns it.

It is the first thing that a run writes after its plan, put only if absent, and it names the plan. The same plan
may go on (it resumes), another one is turned away before it writes a byte. A store that lets a conditional put
overwrite would let two runs mix, so it is found out here, before anything else is written.
"""

from __future__ import annotations

import json

from rescale.errors import RequestError, UnsupportedError
from rescale.planning.places import claim_place
from rescale.planning.plan import Plan, plan_from_json, plan_to_json
from rescale.storage.locations import name
from rescale.storage.store import Store, open_store

DOCUMENT_LIMIT = 1 << 30
"""Largest document of our own that is read, in bytes."""


def load_plan(uri: str) -> Plan:
    document, _ = open_store(uri).read_all(uri, DOCUMENT_LIMIT)
    return plan_from_json(document, uri)


def claim(plan: Plan, *, accept_unconditional: bool = False) -> None:
    """Stores the plan beside its target and takes the target for it, or finds it taken by it already.

    `RequestError` if the target holds anything that is not this plan's; `UnsupportedError` if the store ignores
    conditions, unless that is accepted.
    """
    store = open_store(plan.target)
    _refuse_foreign_files(plan, store)
    _refuse_another(plan, claimed_by(plan.target) or plan.digest)
    store.put(plan.places.plan, plan_to_json(plan))
    document = json.dumps({"plan": plan.digest, "source": plan.source}, indent=1).encode()
    if accept_unconditional:
        if store.stat(plan.places.claim) is None:
            store.put(plan.places.claim, document)
    elif store.put_if_absent(plan.places.claim, document) and not store.honours_conditions(plan.places.claim, document):
        store.delete([plan.places.claim])
        raise UnsupportedError(
            "the store ignores the condition of a put-if-absent, so two runs could overwrite each other",
            path=plan.target,
            advice="use a store that honours If-None-Match, or see to it yourself that no other run has this target "
            "and say --accept-unconditional-publish",
        )
    check_claim(plan)


def check_claim(plan: Plan) -> None:
    """`RequestError` unless this plan holds the claim."""
    _refuse_another(plan, claimed_by(plan.target))


def _refuse_another(plan: Plan, holder: str | None) -> None:
    if holder != plan.digest:
        raise RequestError(
            "the target is claimed by another plan" if holder else "the target is not claimed",
            path=plan.target,
            expected=f"a claim by plan {plan.digest[:8]}",
            found=f"plan {holder[:8]}" if holder else None,
            advice=f"name another target, or remove what that run left: rescale discard {plan.target}",
        )


def claimed_by(target: str) -> str | None:
    """The digest of the plan that claims the target; None without a claim."""
    uri = claim_place(target)
    store = open_store(uri)
    if store.stat(uri) is None:
        return None
    document, _ = store.read_all(uri, DOCUMENT_LIMIT)
    try:
        return str(json.loads(document)["plan"])
    except (ValueError, KeyError, TypeError):
        raise RequestError(
            "there is a claim on the target that is not one of ours", path=uri, advice="name another target"
        ) from None


def planned_names(plan: Plan) -> set[str]:
    """The names of all files that the plan's result may hold, `_metadata` apart."""
    return {plan.file_name(operator, stream) for operator in plan.operators for stream in operator.streams}


def _refuse_foreign_files(plan: Plan, store: Store) -> None:
    ours = planned_names(plan) | {"_metadata"}
    if store.stat(plan.target) is not None:
        raise RequestError("the target is a file", path=plan.target, advice="name a directory that does not exist yet")
    entries = store.list(plan.target)
    foreign = [entry.uri for entry in entries if name(entry.uri) not in ours]
    if any(name(entry.uri) == "_metadata" for entry in entries) and claimed_by(plan.target) != plan.digest:
        foreign.append(plan.places.metadata)
    if foreign:
        raise RequestError(
            "the target is occupied",
            path=plan.target,
            expected="an empty or absent directory",
            found=f"other files ({len(foreign)}), such as {min(foreign)}",
            advice=f"name another target, or remove what an unpublished run left: rescale discard {plan.target}",
        )
