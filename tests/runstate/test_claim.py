"""A plan claims only a target that is free or has the plan's own files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rescale.execution.tasks.in_process import InProcessTasks
from rescale.plan.plan import Plan
from rescale.runstate.certificate import read_certificate
from rescale.runstate.claim import claim, planned_names
from rescale.runstate.places import places_of, run_directory
from rescale.runstate.removal import discard
from rescale.runstate.states import Claim, State, Transition, claim_on, digest_of_claim, permit, state_of
from rescale.storage.locations import name
from rescale.storage.store import Pin, open_store
from rescale.text.errors import RequestError, StoreError, UnsupportedError
from support import snapshots
from support.pipeline import claimed_plan, execute_without_spark, move, plan_rescale

FINISHED_SOURCE = snapshots.directory("2-finished")


@pytest.mark.parametrize("shape", [{"parallelism": ["3"]}, {"max_parallelism": ["40"]}, {"format": "rocksdb"}])
def test_an_interrupted_run_that_wrote_rocksdb_files_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: dict[str, list[str]]
) -> None:
    """The number and the names of RocksDB files are known only when they are written."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    source = snapshots.directory("2-canonical-rocksdb" if "format" in shape else "2-rocksdb-native")
    plan = plan_rescale(source, str(tmp_path / "target"), **shape)
    move(plan, InProcessTasks())
    file_names = [name(entry.uri) for entry in open_store(plan.target).list(plan.target)]
    assert set(file_names) - planned_names(plan).names, "RocksDB has named no file"
    assert all(file in planned_names(plan) for file in file_names)
    claim(plan)
    assert not execute_without_spark(plan).was_already_published


def test_a_run_is_resumed_by_a_release_that_words_its_warnings_differently(tmp_path: Path) -> None:
    plan = plan_rescale(FINISHED_SOURCE, str(tmp_path / "target"), ["3"])
    earlier_plan = replace(plan, warnings=("the sentence of an earlier release",))
    move(earlier_plan, InProcessTasks())
    file_names = [name(entry.uri) for entry in open_store(plan.target).list(plan.target)]
    assert not execute_without_spark(plan).was_already_published
    assert {name(entry.uri) for entry in open_store(plan.target).list(plan.target)} == {*file_names, "_metadata"}
    assert read_certificate(plan.target).warnings == plan.warnings


def assert_occupied_by(plan: Plan, file: str) -> None:
    open_store(plan.target).put(f"{plan.target}/{file}", b"whose?")
    with pytest.raises(RequestError, match="occupied") as caught:
        claim(plan)
    assert file in str(caught.value.found)


def test_target_with_a_file_of_an_unplanned_stream_is_not_claimed_again(tmp_path: Path) -> None:
    plan = claimed_plan(snapshots.directory("2-rocksdb-native"), str(tmp_path / "target"), ["3"])
    assert_occupied_by(plan, f"{'0' * 32}-keyed-0-{plan.digest[:8]}-000010.sst")


def test_target_with_a_second_file_of_a_one_file_stream_is_not_claimed(tmp_path: Path) -> None:
    plan = plan_rescale(FINISHED_SOURCE, str(tmp_path / "target"), ["3"])
    assert_occupied_by(plan, f"{min(planned_names(plan).names)}-000010.sst")


def test_discard_removes_files_that_rocksdb_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    plan = plan_rescale(snapshots.directory("2-rocksdb-native"), str(tmp_path / "target"), max_parallelism=["40"])
    move(plan, InProcessTasks())
    claim(plan)  # a second claim, which accepts the files that RocksDB has named
    assert discard(plan.target).left == ()
    assert not open_store(plan.target).list(plan.target)


@pytest.fixture
def plan_for_parallelism(tmp_path: Path) -> Callable[[str], Plan]:
    return lambda parallelism: plan_rescale(FINISHED_SOURCE, str(tmp_path / "target"), [parallelism])


def test_refused_claim_names_the_plan_run_and_time_of_the_claim(plan_for_parallelism: Callable[[str], Plan]) -> None:
    claim(plan_for_parallelism("3"), run_identity={"dag": "nightly", "run": "r1"})
    with pytest.raises(RequestError, match="claimed by another plan") as caught:
        claim(plan_for_parallelism("2"))
    assert f"plan {plan_for_parallelism('3').digest[:8]}, dag nightly, run r1, 20" in str(caught.value.found)
    assert "UTC" in str(caught.value.found)
    assert plan_for_parallelism("2").digest[:8] in str(caught.value.expected)
    assert "rescale discard" in str(caught.value.advice)


def test_refused_claim_names_the_checkpoint_with_which_the_other_run_has_begun(tmp_path: Path) -> None:
    """By now, the same command may plan with a newer checkpoint, and then it cannot resume the other run."""
    checkpoints, target = tmp_path / "checkpoints", str(tmp_path / "target")
    shutil.copytree(FINISHED_SOURCE, checkpoints / "chk-1")
    claim(plan_rescale(str(checkpoints), target, ["3"]))
    shutil.copytree(FINISHED_SOURCE, checkpoints / "chk-2")
    with pytest.raises(RequestError, match="claimed by another plan") as caught:
        claim(plan_rescale(str(checkpoints), target, ["3"]))
    assert f"to resume that run, use its source {checkpoints}/chk-1, and its options; else " in str(caught.value.advice)
    claim(plan_rescale(f"{checkpoints}/chk-1", target, ["3"]))
    shutil.rmtree(checkpoints / "chk-1")
    with pytest.raises(RequestError, match="claimed by another plan") as caught:
        claim(plan_rescale(str(checkpoints), target, ["3"]))
    assert str(caught.value.advice).startswith("name another target"), "the run cannot be resumed any more"


def test_claim_without_the_name_of_a_run_holds_the_plan_alone(plan_for_parallelism: Callable[[str], Plan]) -> None:
    claim(plan_for_parallelism("3"))
    existing_claim = claim_on(plan_for_parallelism("3").target)
    assert existing_claim is not None
    assert (existing_claim.plan_digest, existing_claim.by, existing_claim.at) == (
        plan_for_parallelism("3").digest,
        {},
        None,
    )
    assert str(existing_claim) == f"plan {plan_for_parallelism('3').digest[:8]}"


def test_claim_names_the_first_run_of_its_plan(plan_for_parallelism: Callable[[str], Plan]) -> None:
    for accept_unconditional in (False, True):
        claim(plan_for_parallelism("3"), run_identity={"run": "first"}, accept_unconditional=accept_unconditional)
        claim(plan_for_parallelism("3"), run_identity={"run": "second"}, accept_unconditional=accept_unconditional)
        existing_claim = claim_on(plan_for_parallelism("3").target)
        assert existing_claim is not None
        assert existing_claim.by == {"run": "first"}
        discard(plan_for_parallelism("3").target)


def test_store_that_ignores_conditions_gets_a_claim_only_if_that_is_accepted(
    plan_for_parallelism: Callable[[str], Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_for_parallelism("3")
    monkeypatch.setattr(open_store(plan.target), "honours_conditions", lambda *_: False)
    with pytest.raises(UnsupportedError, match="ignores the condition"):
        claim(plan)
    assert state_of(plan.target, plan.digest) is State.FREE
    assert not [entry for entry in open_store(plan.target).list(run_directory(plan.target)) if "probe-" in entry.uri]
    claim(plan, accept_unconditional=True)
    assert state_of(plan.target, plan.digest) is State.CLAIMED


def test_claim_made_meanwhile_in_a_store_that_ignores_conditions_is_kept(
    plan_for_parallelism: Callable[[str], Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the store ignores conditions is tested on a probe, so a claim made at the same moment stays."""
    first, second = plan_for_parallelism("3"), plan_for_parallelism("2")
    store = open_store(first.target)
    monkeypatch.setattr(store, "honours_conditions", lambda *_: False)

    def claim_first_and_put(uri: str, data: bytes) -> bool:
        monkeypatch.undo()
        claim(first)
        store.put(uri, data)
        monkeypatch.setattr(store, "honours_conditions", lambda *_: False)
        return True

    monkeypatch.setattr(store, "put_if_absent", claim_first_and_put)
    with pytest.raises(UnsupportedError, match="ignores the condition"):
        claim(second)
    assert state_of(first.target, first.digest) is State.CLAIMED


def test_claim_that_accepts_unconditional_writes_makes_no_conditional_request(
    plan_for_parallelism: Callable[[str], Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store might not support conditional requests."""

    def refuse_conditional_put(*_: object) -> bool:
        raise AssertionError("a conditional request")

    plan = plan_for_parallelism("3")
    monkeypatch.setattr(open_store(plan.target), "put_if_absent", refuse_conditional_put)
    claim(plan, accept_unconditional=True)
    assert state_of(plan.target, plan.digest) is State.CLAIMED


def test_second_of_two_concurrent_claims_is_refused(
    plan_for_parallelism: Callable[[str], Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = plan_for_parallelism("3"), plan_for_parallelism("2")
    store = open_store(first.target)
    put_if_absent = store.put_if_absent

    def claim_first_and_put(uri: str, data: bytes) -> bool:
        monkeypatch.setattr(store, "put_if_absent", put_if_absent)
        claim(first)
        return put_if_absent(uri, data)

    monkeypatch.setattr(store, "put_if_absent", claim_first_and_put)
    with pytest.raises(RequestError, match="claimed by another plan"):
        claim(second)
    assert state_of(first.target, first.digest) is State.CLAIMED


def test_target_reached_through_symbolic_links_has_one_claim(
    plan_for_parallelism: Callable[[str], Plan], tmp_path: Path
) -> None:
    plan = plan_for_parallelism("3")
    home = Path(plan.target).parent
    (tmp_path / "way").symlink_to(home)
    (home / "link").symlink_to(plan.target)
    claim(plan)
    for target in (tmp_path / "way" / Path(plan.target).name, home / "link"):
        with pytest.raises(RequestError, match="claimed by another plan"):
            claim(plan_rescale(plan.source, str(target), ["2"]))
    Path(plan.target).mkdir()
    with pytest.raises(RequestError, match="claimed by another plan"):
        claim(plan_rescale(plan.source, str(home / "link"), ["2"]))
    assert not (home / "link.rescale").exists()


def test_target_in_a_snapshot_is_refused_unless_the_run_began_there(
    plan_for_parallelism: Callable[[str], Plan],
) -> None:
    plan = plan_for_parallelism("3")
    metadata_path = Path(plan.target).parent / "_metadata"
    metadata_path.write_bytes(b"x")
    with pytest.raises(RequestError, match="must not lie inside a snapshot"):
        claim(plan)
    metadata_path.unlink()
    claim(plan)
    metadata_path.write_bytes(b"x")
    claim(plan)


def test_target_that_is_no_empty_directory_is_refused(plan_for_parallelism: Callable[[str], Plan]) -> None:
    plan = plan_for_parallelism("3")
    target = Path(plan.target)
    target.write_bytes(b"")
    with pytest.raises(RequestError, match="the target is a file"):
        claim(plan)
    target.unlink()
    for make in (lambda: target.symlink_to("nowhere"), lambda: os.mkfifo(target)):
        make()
        with pytest.raises(RequestError, match="neither a directory nor a file"):
            claim(plan)
        target.unlink()
    target.mkdir()
    (target / "notes.txt").write_bytes(b"mine")
    with pytest.raises(RequestError, match="the target is occupied") as caught:
        claim(plan)
    assert "notes.txt" in str(caught.value.found)
    assert "move these files away: Rescale did not write them, so discard keeps them" in str(caught.value.advice)
    (target / f"{'0' * 32}-keyed-0-12345678").write_bytes(b"of another run")
    with pytest.raises(RequestError, match="the target is occupied") as caught:
        claim(plan)
    assert f"rescale discard {target}" in str(caught.value.advice)
    (target / "_metadata").write_bytes(b"somebody's")
    with pytest.raises(RequestError, match="the target is occupied") as caught:
        claim(plan)
    assert (caught.value.advice, "(3)" in str(caught.value.found)) == ("name another target", True)
    assert sorted(path.name for path in target.parent.iterdir()) == ["target"], "nothing is written"


@pytest.mark.parametrize("claim_content", [b"", b"\xff", b"[]", b"{}", b'{"plan": "1", "by": 7}', b"[" * 100_000])
def test_claim_with_unknown_content_is_refused_and_shown(
    plan_for_parallelism: Callable[[str], Plan], claim_content: bytes
) -> None:
    plan = plan_for_parallelism("3")
    claim_uri = places_of(plan).claim
    open_store(claim_uri).put(claim_uri, claim_content)
    with pytest.raises(RequestError, match="claim that Rescale wrote") as caught:
        claim(plan)
    assert caught.value.path == claim_uri
    assert len(str(caught.value.found)) <= 500


def test_claim_with_other_types_of_values_is_shown_as_that_of_another_plan(
    plan_for_parallelism: Callable[[str], Plan],
) -> None:
    plan = plan_for_parallelism("3")
    open_store(plan.target).put(places_of(plan).claim, b'{"plan": "1", "by": {"dag": 2}, "at": 1768737600}')
    with pytest.raises(RequestError, match="claimed by another plan") as caught:
        claim(plan)
    assert caught.value.found == "plan 1, dag 2, 1768737600"


def test_claim_that_is_misread_once_is_a_store_error(
    plan_for_parallelism: Callable[[str], Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_for_parallelism("3")
    claim(plan)
    store, claim_uri = open_store(plan.target), places_of(plan).claim
    read_all = store.read_all

    def misread_claim_once(uri: str, *rest: int) -> tuple[bytes, Pin]:
        data, pin = read_all(uri, *rest)
        if uri == claim_uri:
            monkeypatch.setattr(store, "read_all", read_all)
            data = data.replace(plan.digest.encode(), b"0" * 64)
        return data, pin

    monkeypatch.setattr(store, "read_all", misread_claim_once)
    with pytest.raises(StoreError, match="two reads of the"):
        permit(plan, Transition.MOVE)
    assert permit(plan, Transition.MOVE) is State.CLAIMED


def test_move_is_refused_where_another_plan_has_claimed_the_target(plan_for_parallelism: Callable[[str], Plan]) -> None:
    claim(plan_for_parallelism("3"))
    with pytest.raises(RequestError, match="claimed by another plan"):
        permit(plan_for_parallelism("2"), Transition.MOVE)


def test_claim_is_read_from_the_given_store(plan_for_parallelism: Callable[[str], Plan]) -> None:
    """The store may, for example, have other credentials."""

    class StoreWithOneClaim:
        def stat(self, uri: str) -> Pin | None:
            return Pin(1) if uri == "s3://theirs/target.rescale/claim" else None

        def read_all(self, *_: object) -> tuple[bytes, Pin]:
            return b'{"plan": "ab", "by": {}, "at": "now"}', Pin(1)

    store: Any = StoreWithOneClaim()
    assert claim_on("s3://theirs/target", store) == Claim("ab", {}, "now")
    assert claim_on("s3://theirs/another", store) is None
    assert digest_of_claim(plan_for_parallelism("3").target) is None
    claim(plan_for_parallelism("3"))
    assert digest_of_claim(plan_for_parallelism("3").target) == plan_for_parallelism("3").digest


def test_refused_claim_of_a_published_target_names_the_plan_of_the_result(
    plan_for_parallelism: Callable[[str], Plan],
) -> None:
    published_plan = plan_for_parallelism("3")
    execute_without_spark(published_plan)
    with pytest.raises(RequestError, match="occupied") as caught:
        claim(plan_for_parallelism("2"))
    certificate = places_of(published_plan).certificate
    assert caught.value.found == f"a published result of plan {published_plan.digest[:8]} (see {certificate})"

    def write_another_result() -> None:
        metadata = Path(places_of(published_plan).metadata)
        metadata.write_bytes(metadata.read_bytes() + b"0")

    for change in (write_another_result, lambda: Path(certificate).write_bytes(b"{}"), Path(certificate).unlink):
        change()
        with pytest.raises(RequestError, match="occupied") as caught:
            claim(plan_for_parallelism("2"))
        assert "such as" in str(caught.value.found)
