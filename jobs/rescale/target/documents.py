"""Documents of our own beside a target, and the first of them: the plan."""

from __future__ import annotations

import hashlib
import re

from rescale.errors import SnapshotError
from rescale.planning.values.plan import Plan, plan_from_json, plan_to_json
from rescale.storage.locations import name
from rescale.storage.second_look import DOCUMENTS, looked_at_again
from rescale.storage.store import open_store
from rescale.target.places import places_of

_OF_PLAN = re.compile(r"plan-([0-9a-f]{64})\.json")

DOCUMENT_LIMIT = 1 << 30
"""Largest document of our own that is read, in bytes."""


def read_document(uri: str) -> bytes:
    return open_store(uri).read_all(uri, DOCUMENT_LIMIT)[0]


def store_plan(plan: Plan) -> None:
    """Beside its target, where `load_plan` finds it; plans of several requests may lie there."""
    uri = places_of(plan).plan
    open_store(uri).put(uri, plan_to_json(plan))


def store_plan_page(plan: Plan, text: str) -> None:
    """The plan for people."""
    uri = places_of(plan).plan_page
    open_store(uri).put(uri, text.encode())


def store_report(plan: Plan, page: bytes) -> None:
    """What is known of the run, to look at; its plan must have claimed the target."""
    uri = places_of(plan).report
    open_store(uri).put(uri, page)


def store_report_data(plan: Plan, data: bytes) -> None:
    """What the report is made of that neither the plan nor other documents hold."""
    uri = places_of(plan).report_data
    open_store(uri).put(uri, data)


def load_plan(uri: str) -> Plan:
    """The plan in a file; `SnapshotError` if it is none, or not the one that the file's name says.

    `StoreError` if it only reads so once.
    """
    return looked_at_again(lambda: _read_plan(uri), DOCUMENTS)


def _read_plan(uri: str) -> Plan:
    """Its bytes are looked at first: of two looks that are misread at one place, each in its way, these tell."""
    document = read_document(uri)
    named, found = _OF_PLAN.fullmatch(name(uri)), hashlib.sha256(document).hexdigest()
    if named is not None and named[1] != found:
        raise SnapshotError(
            "the plan is not what was written: it has another digest than its name says",
            path=uri,
            expected=named[1],
            found=found,
            advice="plan again; it was damaged or edited, or written by another version of Rescale",
        )
    return plan_from_json(document, uri)
