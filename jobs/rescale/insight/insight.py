"""Insight into a snapshot or a plan: Flink's own restores, evenness, union lists, hand-picked keys, durations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rescale.insight.durations import Durations, durations, restore_seconds
from rescale.insight.flink_restore import OperatorRestore, flink_restore
from rescale.insight.hand_picked_keys import HandPickedKeys, hand_picked_keys
from rescale.insight.key_group_sizes import KeyGroupSizes, estimated_number_of_keys, key_group_sizes
from rescale.insight.record_counts import estimated_number_of_records
from rescale.insight.shapes import ShapeAdvice, evenness_at, hot_key_groups, shape_advice
from rescale.insight.unions import UnionList, union_lists
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.plan import Plan
from rescale.planning.request.operator_shapes import Shape
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.model import Operator, Snapshot
from rescale.storage.locations import is_s3
from rescale.text.errors import SnapshotError, UnsupportedError


class Scale(NamedTuple):
    """A parallelism for comparison: the operator's parallelism × `halves` ÷ 2, rounded up."""

    name: str
    halves: int

    def of(self, operator: Operator) -> int:
        """Return the parallelism of an operator at this scale; at most its max parallelism."""
        return max(1, min(-(-operator.parallelism * self.halves // 2), operator.max_parallelism))


SCALES = (Scale("twice", 4), Scale("1.5 times", 3), Scale("half", 1))


@dataclass(frozen=True)
class JobRestore:
    """How Flink itself would restore all keyed state of the job in another shape.

    `shape` names the shape, such as "twice". If Flink refuses the shape, `refused` holds the reason and there are no
    operators. `seconds` is an estimate.
    """

    shape: str
    operators: tuple[OperatorRestore, ...]
    seconds: float
    refused: str | None = None


@dataclass(frozen=True)
class KeyGroupBytes:
    """The keyed bytes of an operator in each key group: `before` in the snapshot, `after` in the result of a plan.

    `exact` and `after_exact` are false if some of the bytes are estimates.
    """

    operator_id: str
    label: str
    before: tuple[int, ...]
    exact: bool
    after: tuple[int, ...] | None = None
    after_exact: bool | None = None


@dataclass(frozen=True)
class Insight:
    """The insight into a snapshot or a plan; `durations` are None without a plan."""

    restores: tuple[JobRestore, ...]
    shapes: tuple[ShapeAdvice, ...]
    unions: tuple[UnionList, ...]
    hand_picked_keys: tuple[HandPickedKeys, ...]
    key_groups: tuple[KeyGroupBytes, ...]
    durations: Durations | None = None


def snapshot_insight(snapshot: Snapshot) -> Insight:
    """Return the insight into a snapshot without a plan.

    Restores are left out if files are missing or damaged, and advice on shapes if files are missing.
    """
    snapshot = with_measured_databases(snapshot)
    is_read = not any(operator.read_error for operator in snapshot.operators)
    shape_by_id = {o.operator_id: Shape(o.parallelism, o.max_parallelism) for o in snapshot.operators}
    return Insight(
        tuple(_scaled_restores(snapshot)) if is_read and not snapshot.missing_files else (),
        () if snapshot.missing_files else tuple(_advice(o, o.parallelism) for o in _keyed_operators(snapshot)),
        tuple(_unions(snapshot, shape_by_id)),
        tuple(_all_hand_picked_keys(snapshot, shape_by_id)),
        tuple(_key_groups(operator) for operator in _keyed_operators(snapshot)),
    )


def plan_insight(plan: Plan, snapshot: Snapshot) -> Insight:
    """Return the insight into a plan that was made from `snapshot`."""
    snapshot = with_measured_databases(snapshot)
    planned_by_id = {operator.operator_id: operator for operator in plan.operators}
    shape_by_id = {o.operator_id: Shape(o.new_parallelism, o.new_max_parallelism) for o in plan.operators}
    parallelism_by_id = {operator_id: shape.parallelism for operator_id, shape in shape_by_id.items()}
    requested_restore = _requested_restore(plan, snapshot, parallelism_by_id)
    record_count_by_id = {
        operator.operator_id: _estimated_record_count(operator, planned_by_id[operator.operator_id], snapshot)
        for operator in snapshot.operators
        if planned_by_id[operator.operator_id].rekeyed_bytes
    }
    keyed_operators = [(operator, planned_by_id[operator.operator_id]) for operator in _keyed_operators(snapshot)]
    return Insight(
        (requested_restore, *(() if requested_restore.refused else _scaled_restores(snapshot, parallelism_by_id))),
        tuple(_advice(operator, planned.new_parallelism, _new_sizes(planned)) for operator, planned in keyed_operators),
        tuple(_unions(snapshot, shape_by_id)),
        tuple(_all_hand_picked_keys(snapshot, shape_by_id)),
        tuple(_key_groups(operator, planned) for operator, planned in keyed_operators),
        durations(plan, None if requested_restore.refused else requested_restore.operators, record_count_by_id),
    )


def _estimated_record_count(operator: Operator, planned: OperatorPlan, snapshot: Snapshot) -> int:
    """Return an estimate of the number of records to move; for a continued operator, only changed files count."""
    record_count = estimated_number_of_records(operator, snapshot.contents)
    if planned.rekeying is None or not planned.is_continued:
        return record_count
    changed_bytes = sum(change.size for change in planned.rekeying.changes)
    return record_count * changed_bytes // max(1, sum(database.size for database in operator.databases))


def with_measured_databases(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with the key-group sizes of its databases, read from MANIFESTs and indexes of SST files.

    Returns the snapshot unchanged if the sizes are known, or cannot be read.
    """
    databases = [database for operator in snapshot.operators for database in operator.databases]
    if not databases or any(database.measured_sizes for database in databases):
        return snapshot
    from rescale.snapshot.databases.table_sizes import with_key_group_sizes  # imports numpy, needed for databases

    try:
        return with_key_group_sizes(with_tables(snapshot))
    except (SnapshotError, UnsupportedError):
        return snapshot  # if a run needs the rows, it raises this error


def _keyed_operators(snapshot: Snapshot) -> list[Operator]:
    """Return the operators with keyed state that can run with more than one subtask."""
    return [o for o in snapshot.operators if (o.managed_keyed or o.raw_keyed) and o.max_parallelism > 1]


def _new_sizes(planned: OperatorPlan) -> KeyGroupSizes | None:
    """Return the sizes of the new key groups; None if the max parallelism stays, because then the sizes stay, too."""
    if planned.new_max_parallelism == planned.max_parallelism:
        return None
    return KeyGroupSizes(planned.new_key_group_bytes, exact=False)


def _key_groups(operator: Operator, planned: OperatorPlan | None = None) -> KeyGroupBytes:
    """Return the operator's bytes in each key group; with a plan, also those in the result."""
    old_sizes = key_group_sizes(operator)
    new_sizes = _new_sizes(planned) or old_sizes if planned else None
    sizes_after = (new_sizes.sizes, new_sizes.exact) if new_sizes else (None, None)
    return KeyGroupBytes(operator.operator_id, operator.label, old_sizes.sizes, old_sizes.exact, *sizes_after)


def _advice(operator: Operator, parallelism: int, new_sizes: KeyGroupSizes | None = None) -> ShapeAdvice:
    """Return the advice for a parallelism; `new_sizes` are the sizes of key groups if the max parallelism changes."""
    sizes = key_group_sizes(operator)
    return shape_advice(
        operator.operator_id,
        operator.label,
        parallelism,
        [operator.parallelism, *(scale.of(operator) for scale in SCALES)],
        new_sizes or sizes,
        evenness_at(sizes.sizes, operator.parallelism),
        hot_key_groups(sizes.sizes, parallelism),
        estimated_number_of_keys(operator),
    )


def _unions(snapshot: Snapshot, shape_by_id: Mapping[str, Shape]) -> Iterator[UnionList]:
    for operator in snapshot.operators:
        yield from union_lists(snapshot, operator, shape_by_id[operator.operator_id].parallelism)


def _all_hand_picked_keys(snapshot: Snapshot, shape_by_id: Mapping[str, Shape]) -> Iterator[HandPickedKeys]:
    for operator in snapshot.operators:
        if (keys := hand_picked_keys(snapshot, operator, shape_by_id[operator.operator_id])) is not None:
            yield keys


def _scaled_restores(
    snapshot: Snapshot, requested_parallelism_by_id: Mapping[str, int] | None = None
) -> Iterator[JobRestore]:
    """Yield the restores at each parallelism in `SCALES`, except the old and the requested one, each once."""
    keyed_operators = list(_keyed_operators(snapshot))
    covered_parallelisms = [[o.parallelism for o in keyed_operators]]
    if requested_parallelism_by_id:
        covered_parallelisms.append([requested_parallelism_by_id[o.operator_id] for o in keyed_operators])
    for scale in SCALES:
        if (parallelisms := [scale.of(o) for o in keyed_operators]) not in covered_parallelisms:
            covered_parallelisms.append(parallelisms)
            yield _job_restore(scale.name, snapshot, {o.operator_id: scale.of(o) for o in snapshot.operators})


def _requested_restore(plan: Plan, snapshot: Snapshot, parallelism_by_id: Mapping[str, int]) -> JobRestore:
    changed_operators = [
        operator for operator in plan.operators if operator.new_max_parallelism != operator.max_parallelism
    ]
    if changed_operators:
        old_maxima_text = " or ".join(map(str, sorted({operator.max_parallelism for operator in changed_operators})))
        refusal = (
            f"Flink itself cannot do this: it refuses a job whose max parallelism differs from the snapshot's, "
            f"{old_maxima_text}, and a job that sets none keeps the snapshot's"
        )
        return JobRestore("as asked", (), 0.0, refusal)
    return _job_restore("as asked", snapshot, parallelism_by_id)


def _job_restore(shape: str, snapshot: Snapshot, parallelism_by_id: Mapping[str, int]) -> JobRestore:
    restores = tuple(flink_restore(o, parallelism_by_id[o.operator_id]) for o in _keyed_operators(snapshot))
    return JobRestore(shape, restores, restore_seconds(restores, is_on_s3=is_s3(snapshot.directory)))
