"""The candidate keeps all that is not moved, has the right snapshot type, and has every stream of the plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.metadata.checkpoint_metadata import Metadata, Subtask
from rescale.flink.metadata.properties import SnapshotType, snapshot_type
from rescale.flink.metadata.reader import read_metadata
from rescale.flink.slot import Slot
from rescale.plan.plan import Plan
from rescale.runstate.candidate import build_candidate, put_candidate
from rescale.runstate.documents import read_document
from rescale.runstate.states import MOVING_STEPS
from rescale.runstate.written_handles import WrittenHandles, read_handles
from rescale.text.errors import IntegrityError
from support import snapshots
from support.pipeline import move, plan_rescale


def metadata(directory: str) -> Metadata:
    return read_metadata((Path(directory) / "_metadata").read_bytes(), "")


def candidate_of(plan: Plan) -> Metadata:
    move(plan, InProcessTasks())
    return read_metadata(read_document(put_candidate(plan, metadata(plan.source)).uri), "")


@pytest.mark.parametrize(
    ("name", "expected_type"),
    [
        ("1.15.4-full-checkpoint", SnapshotType.UNKNOWN),
        ("2-canonical-hashmap", SnapshotType.CANONICAL_SAVEPOINT),
        ("2-heap-checkpoint", SnapshotType.NATIVE_SAVEPOINT),
        ("2-raw", SnapshotType.CANONICAL_SAVEPOINT),
    ],
)
def test_candidate_has_the_version_of_its_source_and_the_right_snapshot_type(
    name: str, expected_type: SnapshotType, tmp_path: Path
) -> None:
    plan = plan_rescale(snapshots.directory(name), str(tmp_path / "target"), ["4"])
    source, candidate = metadata(plan.source), candidate_of(plan)
    assert (candidate.version, candidate.checkpoint_id, candidate.masters) == (
        source.version,
        source.checkpoint_id,
        source.masters,
    )
    assert snapshot_type(candidate.properties) is expected_type
    assert bool(candidate.properties) == bool(source.properties)


def test_partly_canonical_candidate_is_marked_as_a_native_savepoint(tmp_path: Path) -> None:
    """Under the canonical type, Flink would read the native part in the wrong format."""
    names = ("2-canonical-hashmap", "2-heap-checkpoint")
    canonical, native = (plan_rescale(snapshots.directory(name), str(tmp_path / name), ["4"]) for name in names)
    for plan in (canonical, native):
        move(plan, InProcessTasks())
    canonical_operator = next(
        operator
        for operator in canonical.operators
        if any(stream.slot is Slot.KEYED for stream in operator.new_streams)
    )
    mixed_plan = replace(
        native,
        operators=tuple(
            canonical_operator if operator.label == canonical_operator.label else operator
            for operator in native.operators
        ),
    )
    handles = {
        plan: [handles for step in MOVING_STEPS if (handles := read_handles(plan, step)) is not None]
        for plan in (canonical, native)
    }
    written_handles = [
        replace(
            written,
            handles=tuple(
                handle
                for handle in written.handles
                if (handle.operator_id == canonical_operator.operator_id) is is_canonical
            ),
        )
        for plan, is_canonical in ((canonical, True), (native, False))
        for written in handles[plan]
    ]
    candidate = read_metadata(build_candidate(metadata(native.source), mixed_plan, written_handles), "")
    assert snapshot_type(candidate.properties) is SnapshotType.NATIVE_SAVEPOINT


STATE_KINDS = ("managed_operator", "raw_operator", "managed_keyed", "raw_keyed")


def kinds_of_state(subtask: Subtask) -> set[str]:
    """Return the kinds of state that a subtask has; none for a finished subtask."""
    return {name for name in STATE_KINDS if getattr(subtask.state, name, None) is not None}


def test_candidate_has_state_of_every_kind_that_its_source_has(tmp_path: Path) -> None:
    plan = plan_rescale(snapshots.directory("2-raw"), str(tmp_path / "target"), ["3"])
    source, candidate = metadata(plan.source), candidate_of(plan)
    source_kinds, candidate_kinds = (
        [set.union(set(), *map(kinds_of_state, operator.subtasks)) for operator in m.operators]
        for m in (source, candidate)
    )
    assert source_kinds == candidate_kinds
    assert set.union(*candidate_kinds) == {*STATE_KINDS}
    assert [len(operator.subtasks) for operator in candidate.operators] == [
        operator.parallelism for operator in candidate.operators
    ]


@pytest.mark.parametrize("name", ["2-finished", "2-partially-finished"])
def test_finished_operators_and_subtasks_are_finished_in_the_candidate(name: str, tmp_path: Path) -> None:
    plan = plan_rescale(snapshots.directory(name), str(tmp_path / "target"), max_parallelism=["64"])
    source, candidate = metadata(plan.source), candidate_of(plan)
    for before, after in zip(source.operators, candidate.operators, strict=True):
        assert after.max_parallelism == 64
        assert (before.fully_finished, before.name, before.uid) == (after.fully_finished, after.name, after.uid)
        source_kinds, candidate_kinds = (
            {subtask.index: (subtask.finished, kinds_of_state(subtask)) for subtask in o.subtasks}
            for o in (before, after)
        )
        assert candidate_kinds == {**dict.fromkeys(candidate_kinds, (False, set())), **source_kinds}, (
            "a subtask that is not listed has no state"
        )
    assert any(
        operator.fully_finished or any(s.finished for s in operator.subtasks) for operator in candidate.operators
    )


def test_finished_operator_gets_the_new_parallelism(tmp_path: Path) -> None:
    plan = plan_rescale(snapshots.directory("2-finished"), str(tmp_path / "target"), ["3"])
    finished_operators = [operator for operator in candidate_of(plan).operators if operator.fully_finished]
    assert [(operator.parallelism, operator.subtasks) for operator in finished_operators] == [(3, ())]


def test_missing_or_unplanned_stream_is_refused_with_operator_and_subtask(tmp_path: Path) -> None:
    plan = plan_rescale(snapshots.directory("2-raw"), str(tmp_path / "target"), ["3"])
    move(plan, InProcessTasks())
    written_handles = [handles for step in MOVING_STEPS if (handles := read_handles(plan, step)) is not None]
    source = metadata(plan.source)
    assert build_candidate(source, plan, written_handles)
    first_handle, *other_handles = written_handles[0].handles
    fewer_handles: WrittenHandles = replace(written_handles[0], handles=tuple(other_handles))
    more_handles = replace(
        written_handles[0], handles=(first_handle, *other_handles, first_handle._replace(subtask=17))
    )
    for handles, subtask in ((fewer_handles, first_handle.subtask), (more_handles, 17)):
        with pytest.raises(IntegrityError, match="do not match the planned streams") as caught:
            build_candidate(source, plan, [handles, *written_handles[1:]])
        assert caught.value.operator == first_handle.operator_id
        assert f"subtask {subtask}" in str(caught.value.found)
