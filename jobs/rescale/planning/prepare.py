"""From a request to a plan: here the source is opened, and everything is read that a plan depends on.

Nothing else in planning reads anything, but for `key_hashes`, which takes a sample of keys.
"""

from __future__ import annotations

from typing import NamedTuple

from rescale.planning.asked.finished_operators import refuse_finished
from rescale.planning.asked.request import Request
from rescale.planning.asked.resolved import resolved
from rescale.planning.asked.result_kind import goes_by_record, joins_databases
from rescale.planning.changelog_refusals import refuse_changelog
from rescale.planning.planner import make_plan
from rescale.planning.values.plan import Plan
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.kafka.offsets import KafkaOffsets, kafka_offsets
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.opening import open_snapshot
from rescale.snapshot.surgery import looked_at


class Prepared(NamedTuple):
    """A plan, the snapshot that it was made of, after the surgery, and the offsets of its Kafka sources."""

    plan: Plan
    snapshot: Snapshot
    kafka: tuple[KafkaOffsets, ...]


def prepare(request: Request) -> Prepared:
    """Opens the source, finds out how its keys hash where that matters, and plans."""
    snapshot = open_snapshot(request.source, request.allow_prefixes, request.uids, request.surgery.drops)
    snapshot, request, surgery, shapes = resolved(snapshot, request)
    refuse_finished(snapshot.operators, shapes, request)
    for one in snapshot.operators:
        refuse_changelog(one, request.format)
    key_hashes: dict[str, str] = {}

    def by_record(operator: Operator) -> bool:
        return goes_by_record(operator, shapes[operator.entry.operator_id], request.format)

    def joined(operator: Operator) -> bool:
        return joins_databases(operator, shapes[operator.entry.operator_id], request.format)

    if any(operator.databases and (by_record(operator) or joined(operator)) for operator in snapshot.operators):
        from rescale.snapshot.databases.ingested import with_ingested
        from rescale.snapshot.databases.table_sizes import with_key_group_sizes  # brings numpy, which few requests need

        snapshot = with_ingested(with_key_group_sizes(with_tables(snapshot)), joined)
        surgery = looked_at(surgery, snapshot)
    rekeyed = {o.entry.operator_id: shapes[o.entry.operator_id] for o in snapshot.operators if by_record(o)}
    if rekeyed:
        from rescale.planning.asked.key_hashes import choose_key_hashes  # as above

        maxima = {operator_id: shape.max_parallelism for operator_id, shape in rekeyed.items()}
        key_hashes = choose_key_hashes(snapshot, maxima, request.key_hash)
    kafka = kafka_offsets(snapshot)
    return Prepared(make_plan(snapshot, request, key_hashes, kafka, surgery), snapshot, kafka)
