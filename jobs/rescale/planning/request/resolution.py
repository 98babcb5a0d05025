"""Resolves a request against a snapshot: to a surgery, and the new shape of every operator."""

from __future__ import annotations

from typing import NamedTuple

from rescale.planning.request.operator_shapes import Shape, new_shapes
from rescale.planning.request.request import Request
from rescale.planning.request.surgery import request_after, resolve_surgery
from rescale.snapshot.model import Snapshot
from rescale.snapshot.surgery import Surgery, apply_surgery


class ResolvedRequest(NamedTuple):
    """The `snapshot` and the `request` after the `surgery`, with its new operator ids, and `shapes` by operator id."""

    snapshot: Snapshot
    request: Request
    surgery: Surgery
    shapes: dict[str, Shape]


def resolve_request(snapshot: Snapshot, request: Request) -> ResolvedRequest:
    """Return the resolved request. Raises `RequestError` or `UnsupportedError` if it does not fit the snapshot."""
    surgery = resolve_surgery(snapshot, request.surgery)
    request = request_after(surgery, snapshot.operators, request)
    snapshot = apply_surgery(snapshot, surgery)
    return ResolvedRequest(snapshot, request, surgery, new_shapes(snapshot.operators, request))
