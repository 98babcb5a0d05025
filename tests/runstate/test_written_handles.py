"""A moving step reuses the files of an earlier attempt, if they are whole and belong to the same plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rescale.execution.tasks.in_process import InProcessTasks
from rescale.plan.plan import Plan
from rescale.runstate.candidate import put_candidate
from rescale.runstate.certificate import certificate_for, write_certificate
from rescale.runstate.claim import claim
from rescale.runstate.places import places_of, run_directory
from rescale.runstate.removal import discard
from rescale.runstate.states import KEYED, OPERATOR, State, state_of
from rescale.runstate.written_handles import WrittenHandles, begin_moving, read_handles, write_handles
from rescale.storage.store import open_store
from rescale.text.errors import IntegrityError, RequestError
from runstate.test_candidate import metadata
from support import snapshots
from support.pipeline import execute_without_spark, move, plan_rescale


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Return a plan with a result of files, which are not inlined however small they are."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    return plan_rescale(snapshots.directory("2-raw"), str(tmp_path / "target"), ["3"])


def sizes_by_name(plan: Plan) -> dict[str, int]:
    return {Path(entry.uri).name: entry.size for entry in open_store(plan.target).list(plan.target)}


def handles_of(plan: Plan, step: str) -> WrittenHandles:
    handles = read_handles(plan, step)
    assert handles is not None
    return handles


@pytest.mark.parametrize("name", ["2-raw", "2-rocksdb-native"])
def test_written_handles_name_every_file_with_its_size(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    plan = plan_rescale(snapshots.directory(name), str(tmp_path / "target"), ["3"])
    move(plan, InProcessTasks())
    assert {**handles_of(plan, KEYED).files, **handles_of(plan, OPERATOR).files} == sizes_by_name(plan)


def test_written_handles_of_inline_state_name_no_file(tmp_path: Path) -> None:
    plan = plan_rescale(snapshots.directory("2-raw"), str(tmp_path / "target"), ["3"])
    move(plan, InProcessTasks())
    inline_handles = handles_of(plan, OPERATOR)
    assert inline_handles.handles
    assert (inline_handles.files, sizes_by_name(plan)) == ({}, handles_of(plan, KEYED).files)
    assert begin_moving(plan, OPERATOR, {}) == inline_handles


def test_written_handles_are_reused_only_if_all_their_files_are_whole(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(plan)
    assert begin_moving(plan, KEYED, {}) is None
    move(plan, InProcessTasks())
    file_sizes = sizes_by_name(plan)
    handles = handles_of(plan, KEYED)
    assert begin_moving(plan, KEYED, file_sizes) == handles
    file = min(handles.files)
    sizes_without_file = {name: size for name, size in file_sizes.items() if name != file}
    store, asked_uris = open_store(plan.target), list[str]()
    stats = store.stats
    monkeypatch.setattr(store, "stats", lambda uris: asked_uris.extend(uris) or stats(uris))
    assert begin_moving(plan, KEYED, sizes_without_file) == handles
    assert [uri for uri in asked_uris if not uri.startswith(run_directory(plan.target))] == [
        places_of(plan).stream(file)
    ]
    path = Path(plan.target, file)
    path.write_bytes(path.read_bytes()[:-1])
    assert begin_moving(plan, KEYED, sizes_by_name(plan)) is None
    path.unlink()
    assert begin_moving(plan, KEYED, sizes_by_name(plan)) is None


def test_incomplete_published_result_is_refused_with_its_first_missing_file(plan: Plan) -> None:
    execute_without_spark(plan)
    lost_files = sorted(handles_of(plan, KEYED).files)[-2:]
    for file in lost_files:
        Path(plan.target, file).unlink()
    with pytest.raises(IntegrityError, match="published result is incomplete") as caught:
        begin_moving(plan, KEYED, sizes_by_name(plan))
    assert (caught.value.path, caught.value.found) == (
        places_of(plan).stream(lost_files[0]),
        "2 files are missing or truncated",
    )


def test_published_result_without_written_handles_is_not_written_again(plan: Plan) -> None:
    execute_without_spark(plan)
    place = places_of(plan).written_handles(KEYED)
    open_store(place).delete([place])
    with pytest.raises(IntegrityError, match="published result is incomplete") as caught:
        begin_moving(plan, KEYED, sizes_by_name(plan))
    assert caught.value.path == place


def test_written_handles_of_another_plan_are_refused(plan: Plan) -> None:
    move(plan, InProcessTasks())
    write_handles(plan, replace(handles_of(plan, KEYED), plan="0" * 64))
    with pytest.raises(IntegrityError, match="another plan") as caught:
        begin_moving(plan, KEYED, sizes_by_name(plan))
    assert caught.value.path == places_of(plan).written_handles(KEYED)


@pytest.mark.parametrize("damage", [b"", b"\xff", b"[]", b"{}", b'{"step": "keyed", "plan": "1", "handles": 3}'])
def test_damaged_written_handles_are_refused_with_their_path(plan: Plan, damage: bytes) -> None:
    move(plan, InProcessTasks())
    place = places_of(plan).written_handles(KEYED)
    open_store(place).put(place, damage)
    with pytest.raises(IntegrityError, match="cannot be read") as caught:
        read_handles(plan, KEYED)
    assert caught.value.path == place
    assert str(caught.value.advice).endswith(f"then run again: rescale discard {plan.target}")


def test_step_that_continues_after_discard_writes_no_document(plan: Plan) -> None:
    """The step writes no handles, candidate or certificate: they would describe files that no longer exist."""
    execute_without_spark(plan)
    handles, certificate = handles_of(plan, KEYED), certificate_for(plan)
    store = open_store(plan.target)
    store.delete(entry.uri for entry in store.list(plan.target))
    discard(plan.target)
    assert state_of(plan.target, plan.digest) is State.FREE
    for write_document in (
        lambda: write_handles(plan, handles),
        lambda: put_candidate(plan, metadata(plan.source)),
        lambda: write_certificate(plan, certificate),
    ):
        with pytest.raises(RequestError, match="the target is not claimed"):
            write_document()
    assert store.list(f"{plan.target}.rescale") == []
