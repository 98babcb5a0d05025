"""The candidate keeps all that is not moved, calls itself what it is, and has every stream that the plan wants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rescale.execution.tasks.in_process import Loop
from rescale.flink.metadata.checkpoint_metadata import Metadata, Subtask
from rescale.flink.metadata.properties import SnapshotType, snapshot_type
from rescale.flink.metadata.reader import read_metadata
from rescale.flink.slot import Slot
from rescale.plan.plan import Plan
from rescale.runstate.candidate import build_candidate, put_candidate
from rescale.runstate.documents import read_document
from rescale.runstate.states import STEPS
from rescale.runstate.written_handles import WrittenHandles, read_handles
from rescale.text.errors import IntegrityError
from support import snapshots
from support.pipeline import move, plan_rescale


def metadata(directory: str) -> Metadata:
    return read_metadata((Path(directory) / "_metadata").read_bytes(), "")


def candidate_of(plan: Plan) -> Metadata:
    move(plan, Loop())
    return read_metadata(read_document(put_candidate(plan, metadata(plan.source)).uri), "")


@pytest.mark.parametrize(
    ("name", "is_called"),
    [
        ("1.15.4-full-checkpoint", SnapshotType.UNKNOWN),
        ("2-canonical-hashmap", SnapshotType.CANONICAL_SAVEPOINT),
        ("2-heap-checkpoint", SnapshotType.NATIVE_SAVEPOINT),
        ("2-raw", SnapshotType.CANONICAL_SAVEPOINT),
    ],
)
def test_it_has_the_version_of_its_source_and_calls_itself_what_it_is(
    name: str, is_called: SnapshotType, tmp_path: Path
) -> None:
    plan = plan_rescale(snapshots.directory(name), str(tmp_path / "target"), ["4"])
    source, made = metadata(plan.source), candidate_of(plan)
    assert (made.version, made.checkpoint_id, made.masters) == (source.version, source.checkpoint_id, source.masters)
    assert snapshot_type(made.properties) is is_called
    assert bool(made.properties) == bool(source.properties)


def test_what_is_canonical_in_part_does_not_call_itself_so(tmp_path: Path) -> None:
    """Flink would read the other part in a way that it is not written in."""
    names = ("2-canonical-hashmap", "2-heap-checkpoint")
    canonical, native = (plan_rescale(snapshots.directory(name), str(tmp_path / name), ["4"]) for name in names)
    for plan in (canonical, native):
        move(plan, Loop())
    part = next(
        operator
        for operator in canonical.operators
        if any(stream.slot is Slot.KEYED for stream in operator.new_streams)
    )
    mixed = replace(
        native, operators=tuple(part if operator.label == part.label else operator for operator in native.operators)
    )
    handles = {
        plan: [handles for step in STEPS if (handles := read_handles(plan, step)) is not None]
        for plan in (canonical, native)
    }
    written = [
        replace(
            some,
            handles=tuple(handle for handle in some.handles if (handle.operator_id == part.operator_id) is is_part),
        )
        for plan, is_part in ((canonical, True), (native, False))
        for some in handles[plan]
    ]
    made = read_metadata(build_candidate(metadata(native.source), mixed, written), "")
    assert snapshot_type(made.properties) is SnapshotType.NATIVE_SAVEPOINT


SORTS = ("managed_operator", "raw_operator", "managed_keyed", "raw_keyed")


def what_it_has(subtask: Subtask) -> set[str]:
    """The sorts of state; nothing for one that has finished, which has no state at all."""
    return {name for name in SORTS if getattr(subtask.state, name, None) is not None}


def test_state_of_every_sort_is_there_and_in_its_place(tmp_path: Path) -> None:
    plan = plan_rescale(snapshots.directory("2-raw"), str(tmp_path / "target"), ["3"])
    source, made = metadata(plan.source), candidate_of(plan)
    had, has = (
        [set.union(set(), *map(what_it_has, operator.subtasks)) for operator in m.operators] for m in (source, made)
    )
    assert had == has
    assert set.union(*has) == {*SORTS}
    assert [len(operator.subtasks) for operator in made.operators] == [
        operator.parallelism for operator in made.operators
    ]


@pytest.mark.parametrize("name", ["2-finished", "2-partially-finished"])
def test_what_has_finished_stays_so(name: str, tmp_path: Path) -> None:
    plan = plan_rescale(snapshots.directory(name), str(tmp_path / "target"), max_parallelism=["64"])
    source, made = metadata(plan.source), candidate_of(plan)
    for before, after in zip(source.operators, made.operators, strict=True):
        assert after.max_parallelism == 64
        assert (before.fully_finished, before.name, before.uid) == (after.fully_finished, after.name, after.uid)
        had, has = (
            {subtask.index: (subtask.finished, what_it_has(subtask)) for subtask in o.subtasks} for o in (before, after)
        )
        assert has == {**dict.fromkeys(has, (False, set())), **had}, "a subtask that is not listed has no state"
    assert any(operator.fully_finished or any(s.finished for s in operator.subtasks) for operator in made.operators)


def test_an_operator_that_has_finished_gets_the_new_shape(tmp_path: Path) -> None:
    plan = plan_rescale(snapshots.directory("2-finished"), str(tmp_path / "target"), ["3"])
    finished = [operator for operator in candidate_of(plan).operators if operator.fully_finished]
    assert [(operator.parallelism, operator.subtasks) for operator in finished] == [(3, ())]


def test_a_stream_too_few_or_too_many_is_named(tmp_path: Path) -> None:
    plan = plan_rescale(snapshots.directory("2-raw"), str(tmp_path / "target"), ["3"])
    move(plan, Loop())
    written = [handles for step in STEPS if (handles := read_handles(plan, step)) is not None]
    source = metadata(plan.source)
    assert build_candidate(source, plan, written)
    first, *others = written[0].handles
    fewer: WrittenHandles = replace(written[0], handles=tuple(others))
    more = replace(written[0], handles=(first, *others, first._replace(subtask=17)))
    for handles, subtask in ((fewer, first.subtask), (more, 17)):
        with pytest.raises(IntegrityError, match="not those of the planned streams") as caught:
            build_candidate(source, plan, [handles, *written[1:]])
        assert caught.value.operator == first.operator_id
        assert f"subtask {subtask}" in str(caught.value.found)
