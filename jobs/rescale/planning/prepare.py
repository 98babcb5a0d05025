"""From a request to a plan: here the source is opened, and everything is read that a plan depends on.

Nothing else in planning reads anything, but for `key_hashes`, which takes a sample of keys.
"""

from __future__ import annotations

from typing import NamedTuple

from rescale.planning.operator_shapes import new_shapes
from rescale.planning.plan import Plan
from rescale.planning.planner import make_plan
from rescale.planning.request import Format, Request
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.kafka.offsets import KafkaOffsets, kafka_offsets
from rescale.snapshot.model import Snapshot
from rescale.snapshot.opening import open_snapshot


class Prepared(NamedTuple):
    """A plan, the snapshot that it was made of, and the offsets of its Kafka sources."""

    plan: Plan
    snapshot: Snapshot
    kafka: tuple[KafkaOffsets, ...]


def prepare(request: Request) -> Prepared:
    """Opens the source, finds out how its keys hash where that matters, and plans."""
    snapshot = open_snapshot(request.source, request.allow_prefixes, request.uids)
    shapes = new_shapes(snapshot.operators, request)
    key_hashes: dict[str, str] = {}
    by_record = request.format is Format.CANONICAL
    if by_record and any(operator.databases for operator in snapshot.operators):
        from rescale.snapshot.databases.table_sizes import with_key_group_sizes  # brings numpy, which few requests need

        snapshot = with_key_group_sizes(with_tables(snapshot))
    rekeyed = any(shapes[o.entry.operator_id].max_parallelism != o.entry.max_parallelism for o in snapshot.operators)
    if rekeyed or by_record:
        from rescale.planning.key_hashes import choose_key_hashes  # as above

        maxima = {operator_id: shape.max_parallelism for operator_id, shape in shapes.items()}
        key_hashes = choose_key_hashes(snapshot, maxima, request.key_hash)
    kafka = kafka_offsets(snapshot)
    return Prepared(make_plan(snapshot, request, key_hashes, kafka), snapshot, kafka)
