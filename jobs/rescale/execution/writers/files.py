"""The files of new streams."""

from __future__ import annotations

from rescale.planning.values.new_streams import NewStream
from rescale.planning.values.operator_plan import OperatorPlan
from rescale.planning.values.plan import Plan
from rescale.storage.store import open_store
from rescale.target.places import places_of


def stream_uri(plan: Plan, operator: OperatorPlan, stream: NewStream) -> str:
    return places_of(plan).stream(plan.file_name(operator, stream))


def begun_in_parts(plan: Plan, operator: OperatorPlan, stream: NewStream) -> str:
    """The token of a stream's upload, begun in place of what an earlier try began."""
    uri = stream_uri(plan, operator, stream)
    store = open_store(uri)
    store.abort_parts(uri)
    return store.begin_parts(uri, places_of(plan).staging)
