"""The entry to planning: opens the source, reads everything that a plan depends on, and makes the plan.

Most other modules of planning read nothing from storage. But `key_hashes` samples keys, `kafka_changes` and
`resolution` read Kafka offsets, and `continuing` compares the SST files of two checkpoints.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from rescale.plan.plan import Plan
from rescale.planning.planner import make_plan
from rescale.planning.refusals import refuse_changelog, refuse_undelimited_entries
from rescale.planning.request.finished_operators import refuse_finished
from rescale.planning.request.request import Request
from rescale.planning.request.resolution import resolve_request
from rescale.planning.request.result_kind import is_rewritten_by_record, joins_databases
from rescale.rocksdb.database_layout import LEVEL_COUNT
from rescale.rocksdb.options_file import refuse_few_levels
from rescale.runstate.preparation import is_prepared
from rescale.snapshot.databases.live_tables import check_options_of, with_tables
from rescale.snapshot.kafka.offsets import KafkaOffsets, kafka_offsets
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.snapshot.surgery import with_stored_sizes


class PreparedPlan(NamedTuple):
    """A plan, the snapshot that it was made from (after the surgery), and the offsets of its Kafka sources."""

    plan: Plan
    snapshot: Snapshot
    source_offsets: tuple[KafkaOffsets, ...]


def prepare(request: Request, *, copies_ahead: bool = False) -> PreparedPlan:
    """Open the source, choose key hashes for operators whose records are read, and plan.

    With `copies_ahead`, the plan is for copying files into the target before the job ends (`preparation`). Without it,
    the plan uses copies that are already there. Raises `SnapshotError`, `UnsupportedError` or `RequestError` if the
    request cannot be met.
    """
    snapshot = open_snapshot(request.source, request.allow_prefixes, request.uids, request.surgery.drops, request.moves)
    snapshot, request, surgery, shapes = resolve_request(snapshot, request)
    refuse_finished(snapshot.operators, shapes, request)
    snapshot.check_complete()  # a changelog describes its states only if all its files exist
    for operator in snapshot.operators:
        refuse_changelog(operator, request.format)
    key_hashes: dict[str, str] = {}

    def rewrites_records(operator: Operator) -> bool:
        return is_rewritten_by_record(operator, shapes[operator.operator_id], request.format)

    def is_joined(operator: Operator) -> bool:
        return joins_databases(operator, shapes[operator.operator_id], request.format)

    if any(
        operator.databases and (rewrites_records(operator) or is_joined(operator)) for operator in snapshot.operators
    ):
        from rescale.snapshot.databases.ingested import with_ingested_files

        # Imports numpy, which few requests need.
        from rescale.snapshot.databases.table_sizes import with_key_group_sizes

        snapshot = with_ingested_files(with_key_group_sizes(with_tables(snapshot)), is_joined)
        surgery = with_stored_sizes(surgery, snapshot)
    rekeyed_operators = [operator for operator in snapshot.operators if rewrites_records(operator)]
    for operator in rekeyed_operators:
        refuse_undelimited_entries(operator)  # checked first: if entries cannot be read, a hash of keys does not help
    if rekeyed_operators:
        from rescale.planning.request.key_hashes import choose_key_hashes  # imports numpy

        new_max_parallelisms = {
            operator.operator_id: shapes[operator.operator_id].max_parallelism for operator in rekeyed_operators
        }
        key_hashes = choose_key_hashes(snapshot, new_max_parallelisms, request.key_hash)
    source_offsets = kafka_offsets(snapshot)
    copies_ahead = copies_ahead or is_prepared(request.target)
    plan = make_plan(snapshot, request, key_hashes, source_offsets, surgery, copies_ahead=copies_ahead)
    for operator, planned_operator in zip(snapshot.operators, plan.operators, strict=True):
        if planned_operator.writes_rows:  # the rows go into the last level
            check_options_of(snapshot, operator, partial(refuse_few_levels, needed_levels=LEVEL_COUNT))
        elif planned_operator.compacted:  # a compaction of whole files may move files from level 0 to level 1
            check_options_of(snapshot, operator, partial(refuse_few_levels, needed_levels=2))
    return PreparedPlan(plan, snapshot, source_offsets)
