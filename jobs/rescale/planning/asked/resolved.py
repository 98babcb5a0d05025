"""What a request comes to on a snapshot: who is meant, what becomes of whom, and all shapes."""

from __future__ import annotations

from typing import NamedTuple

from rescale.planning.asked.asked_surgery import asked_surgery, request_after
from rescale.planning.asked.operator_shapes import Shape, new_shapes
from rescale.planning.asked.request import Request
from rescale.snapshot.model import Snapshot
from rescale.snapshot.surgery import Surgery, operated


class Resolved(NamedTuple):
    """`snapshot` is the one after the `surgery`, and the `request` names operators as they are then; `shapes` by id."""

    snapshot: Snapshot
    request: Request
    surgery: Surgery
    shapes: dict[str, Shape]


def resolved(snapshot: Snapshot, request: Request) -> Resolved:
    """`RequestError` or `UnsupportedError` if something is named that is not there, or makes no sense."""
    surgery = asked_surgery(snapshot, request.surgery)
    request = request_after(surgery, snapshot.operators, request)
    snapshot = operated(snapshot, surgery)
    return Resolved(snapshot, request, surgery, new_shapes(snapshot.operators, request))
