"""Names and uploads of new streams' files."""

from __future__ import annotations

from rescale.plan.new_streams import NewStream
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.plan import Plan
from rescale.runstate.places import places_of
from rescale.storage.store import open_store


def stream_uri(plan: Plan, operator: OperatorPlan, stream: NewStream) -> str:
    """Return the URI of a new stream's file in the target."""
    return places_of(plan).stream(plan.file_name(operator, stream))


def begun_in_parts(plan: Plan, operator: OperatorPlan, stream: NewStream) -> str:
    """Begin a stream's upload, after aborting one that an earlier attempt began; return its token."""
    uri = stream_uri(plan, operator, stream)
    store = open_store(uri)
    store.abort_parts(uri)
    return store.begin_parts(uri, places_of(plan).staging)
