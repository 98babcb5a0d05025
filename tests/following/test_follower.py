"""A follower makes a base, rounds and a last round while a job completes and deletes checkpoints.

Later checkpoints share the files of earlier ones, so no row changes; real jobs are in `oracle/test_following`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from unittest.mock import Mock

import pytest

from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.following import follower as followers
from rescale.following.leaving import leave
from rescale.following.limits import Limits
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.runstate.certificate import certified_plan, read_certificate
from rescale.runstate.claim import claim
from rescale.runstate.follower.pins import Pins
from rescale.runstate.follower.rounds import (
    RoundKind,
    described_rounds,
    finished_round_checkpoints,
    read_round,
    round_target,
)
from rescale.runstate.places import discarding_place, follower_place, pins_place, places_of, rounds_place, run_directory
from rescale.runstate.publication import published_plan
from rescale.runstate.removal import discard
from rescale.runstate.states import digest_of_claim, is_being_discarded
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.locations import join
from rescale.storage.store import open_store
from rescale.text.errors import RequestError, UnsupportedError
from support.checkpoints import Checkpoints
from support.diffing import diff
from support.followers import (
    SHAPE,
    assert_rounds_are_whole,
    checkpoints_follow,
    finish,
    follow,
    follower_of,
    with_other_backends,
)
from support.pipeline import certify, move, plan_rescale
from support.s3 import unprotected_store


def test_files_that_rounds_cannot_read_are_refused_before_the_base(job: Checkpoints, home: str) -> None:
    store = unprotected_store(job.directory)
    for entry in store.list(job.directory):
        content = store.read_all(entry.uri, 1 << 20)[0]
        if (edited_content := content.replace(b"  format_version=5", b"  format_version=6")) != content:
            store.put(entry.uri, edited_content)
    follower = follower_of(job, home)
    with pytest.raises(UnsupportedError, match="rounds cannot read the SST files") as caught:
        follow(follower, 0)
    assert caught.value.found == "format_version=6"
    assert finished_round_checkpoints(follower.target) == []


def test_follower_makes_base_and_rounds_and_finishes(job: Checkpoints, home: str) -> None:
    follower = follower_of(job, home)
    (base,) = follow(follower, 0)
    assert (base.kind, base.number, base.checkpoint, base.rows_written) == (RoundKind.BASE, 0, 3, None)
    for number in (4, 5, 6):
        checkpoints_follow(job, [number])
        (new_round,) = follow(follower, 1)
        assert (new_round.kind, new_round.number, new_round.root) == (RoundKind.ROUND, number - 3, 3)
        assert (new_round.rows_deleted, new_round.rows_written, new_round.bytes_read) == (0, 0, 0)
        assert finished_round_checkpoints(follower.target) == sorted({3, 4, number}), (
            "the base, the first round, and the newest"
        )
        assert Pins(follower.target, job.directory).checkpoint_numbers() == [3 if number == 4 else 4, number]
    assert [new_round.checkpoint for new_round in described_rounds(follower.target)] == [3, 4, 5, 6], (
        "descriptions of removed rounds stay"
    )
    assert published_plan(follower.target) is None
    finish(follower)
    validate_published(job.newest, follower.target, InProcessTasks(2, None))
    assert published_plan(follower.target) is not None
    assert published_plan(follower.target, {"host": "there"}) is None, "a result of another run was taken for its own"
    assert diff(open_snapshot(job.newest), open_snapshot(follower.target)).equal
    remaining = [entry.uri for entry in open_store(home).list(run_directory(follower.target))]
    assert not [
        uri for uri in remaining if uri.startswith((pins_place(follower.target), rounds_place(follower.target)))
    ]
    with pytest.raises(RequestError):
        follow(follower, 1)


def test_rounds_refer_to_the_files_of_their_base(job: Checkpoints, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last round and a published round have copies of these files."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    follower = follower_of(job, home)
    follow(follower, 0)
    base_tables = tables_of(open_snapshot(round_target(follower.target, 3)))
    assert base_tables
    for number in (4, 5):
        checkpoints_follow(job, [number])
        follow(follower, 1, publish_every=2)
        round_uri = round_target(follower.target, number)
        assert tables_of(open_snapshot(round_uri, [rounds_place(follower.target)])) == base_tables
        assert not [entry.uri for entry in open_store(home).list(round_uri) if entry.uri.endswith(".sst")]
        assert {file.name for file in read_certificate(round_uri).files if file.is_elsewhere} == base_tables
    newest = read_round(follower.target, 5)
    assert newest is not None
    assert newest.bytes_changed < open_snapshot(round_target(follower.target, 3)).bytes
    finish(follower)
    for target in (follower.target, f"{follower.target}-5"):
        own_tables = tables_of(open_snapshot(target))
        assert len(own_tables) == len(base_tables)
        assert all(uri.startswith(f"{target}/") for uri in own_tables)
        validate_published(job.newest, target, InProcessTasks(2, None))


def tables_of(snapshot: Snapshot) -> set[str]:
    files = [file for operator in snapshot.operators for database in operator.databases for file in database.files]
    return {snapshot.files[file.extent.file][0] for file in files if file.name.endswith(".sst")}


@pytest.mark.parametrize("has_document", [True, False])
def test_base_stays_as_long_as_a_round_refers_to_it(
    job: Checkpoints, home: str, has_document: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if the base has lost its document, or the next round was begun by another plan."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    follower = follower_of(job, home)
    follow(follower, 0)
    checkpoints_follow(job, [4])
    follow(follower, 1)
    store = open_store(home)
    if not has_document:
        documents = [join(rounds_place(follower.target), f"{number}.json") for number in (3, 4)]
        store.delete([*documents, join(round_target(follower.target, 3), "_metadata")])
    checkpoints_follow(job, [5])
    claim(plan_rescale(job.newest, round_target(follower.target, 5), ["2"]))
    (new_round,) = follow(follower, 1)
    assert new_round.kind is RoundKind.ROUND
    assert_rounds_are_whole(follower.target)


def test_last_round_may_have_the_checkpoint_of_the_newest_round(job: Checkpoints, home: str) -> None:
    follower = follower_of(job, home)
    follow(follower, 0)
    planned = follower.plan_last()
    assert planned.kind is RoundKind.ROUND
    finish(follower)
    validate_published(job.newest, follower.target, InProcessTasks(2, None))


def test_moved_result_of_an_earlier_checkpoint_is_discarded_on_finish(job: Checkpoints, home: str) -> None:
    messages: list[str] = []
    follower = follower_of(job, home, messages)
    follow(follower, 0)
    early_plan = follower.plan_last().prepared.plan
    claim(early_plan, is_last_round=True)
    move(early_plan, InProcessTasks(2, None))
    checkpoints_follow(job, [4])
    follow(follower, 1)
    assert follower.plan_last().prepared.plan.checkpoint_id == 4
    finish(follower)
    assert open_snapshot(follower.target).metadata.checkpoint_id == 4
    assert any("discarding" in line for line in messages)


def test_killed_discard_of_a_last_round_is_finished(job: Checkpoints, home: str) -> None:
    """The discard was killed right before it removed its note, with which nobody can claim the target."""
    follower = follower_of(job, home)
    follow(follower, 0)
    for go_on in (
        lambda: follower.plan_last(),
        lambda: follow(follower, 0),
        lambda: leave(follower.target, job.directory, {"host": "here"}),
    ):
        open_store(home).put(discarding_place(follower.target), b"")
        go_on()
        assert not is_being_discarded(follower.target)
    follow(follower, 0)
    finish(follower)


def test_changed_state_backend_starts_a_new_base(job: Checkpoints, home: str) -> None:
    follower = follower_of(job, home)
    follow(follower, 0)
    checkpoints_follow(job, [4])
    job.rewrite(with_other_backends)
    (new_round,) = follow(follower, 1)
    assert (new_round.kind, new_round.number, new_round.root) == (RoundKind.BASE, 1, 4)
    assert new_round.reason is not None
    assert "another" in new_round.reason
    assert finished_round_checkpoints(follower.target) == [4]


def test_rounds_are_joined_if_no_level_is_left(job: Checkpoints, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A joined round continues the round whose records were compared, not the base."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    follower = follower_of(job, home)
    follow(follower, 0)
    for number in (4, 5):
        checkpoints_follow(job, [number])
        follow(follower, 1)
    assert finished_round_checkpoints(follower.target) == [3, 4, 5]
    levels = iter([1, 6])
    monkeypatch.setattr("rescale.following.round_plan.rounds_left", lambda _: next(levels))
    checkpoints_follow(job, [6])
    (new_round,) = follow(follower, 1)
    assert (new_round.kind, new_round.root, new_round.compared, new_round.number) == (RoundKind.JOINED, 3, 4, 3)
    continued = certified_plan(round_target(follower.target, 6)).continued
    assert continued is not None
    assert continued.target == round_target(follower.target, 4)
    assert finished_round_checkpoints(follower.target) == [3, 4, 6]
    assert Pins(follower.target, job.directory).checkpoint_numbers() == [4, 6]
    assert_rounds_are_whole(follower.target)
    monkeypatch.undo()
    finish(follower)
    validate_published(job.newest, follower.target, InProcessTasks(2, None))


def test_every_second_round_is_published(job: Checkpoints, home: str) -> None:
    follower = follower_of(job, home)
    follow(follower, 0, publish_every=2)
    for number in (4, 5):
        checkpoints_follow(job, [number])
        follow(follower, 1, publish_every=2)
    store = open_store(home)
    assert store.stat(join(f"{follower.target}-5", "_metadata")) is not None
    assert store.stat(join(f"{follower.target}-4", "_metadata")) is None
    assert diff(open_snapshot(job.newest), open_snapshot(f"{follower.target}-5")).equal


def test_follower_with_another_shape_is_refused(job: Checkpoints, home: str) -> None:
    follow(follower_of(job, home), 0)
    with pytest.raises(RequestError) as caught:
        follow(follower_of(job, home, shape={**SHAPE, "parallelism": ["4"]}), 1)
    assert "parallelism 4, max-parallelism 1000" in str(caught.value.expected)


@pytest.mark.parametrize("checkpoint", ["chk-3", "chk-3/_metadata"])
def test_a_checkpoint_is_refused_as_the_directory_of_checkpoints(job: Checkpoints, home: str, checkpoint: str) -> None:
    follower = follower_of(job, home)
    with pytest.raises(RequestError, match="not a directory with the checkpoints of a job"):
        follow(replace(follower, job=replace(follower.job, checkpoints=join(job.directory, checkpoint))), 0)
    assert not open_store(home).list(run_directory(follower.target))


def test_newest_checkpoint_is_taken_if_one_vanishes_while_it_is_pinned(
    job: Checkpoints, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    follower = follower_of(job, home, messages)

    def complete_next_checkpoint(_: float) -> None:
        checkpoints_follow(job, [4])
        job.show(hidden_uri)

    hidden_uri = job.shared()[0]
    job.hide(hidden_uri)
    monkeypatch.setattr(followers, "time", Mock(wraps=followers.time, sleep=complete_next_checkpoint))
    (new_round,) = follow(follower, 0)
    assert new_round.checkpoint == 4
    assert any("3" in line for line in messages)


def test_missing_document_of_a_round_is_written_again(job: Checkpoints, home: str) -> None:
    follower = follower_of(job, home)
    follow(follower, 0)
    store = open_store(home)
    document_uri = join(rounds_place(follower.target), "3.json")
    store.delete([document_uri])
    checkpoints_follow(job, [4])
    (new_round,) = follow(follower, 1)
    assert (new_round.number, new_round.root) == (1, 3)
    new_document = read_round(follower.target, 3)
    assert new_document is not None
    assert (new_document.kind, new_document.seconds) == (RoundKind.BASE, None)


@pytest.mark.parametrize("discarded_at", ["before", "while", "after"])
def test_a_discard_beside_a_follower_leaves_nothing(job: Checkpoints, home: str, discarded_at: str) -> None:
    """This holds whatever the follower was about to write."""
    follower = follower_of(job, home)
    follow(follower, 0)
    checkpoints_follow(job, [4])

    def certify_and_discard(plan: Plan, proof: Proof) -> None:
        if discarded_at == "before":
            discard(follower.target)
        certify(plan, proof)
        if discarded_at == "while":
            discard(follower.target)

    def discard_after_round(*_: object) -> None:
        if discarded_at == "after":
            discard(follower.target)

    with pytest.raises(RequestError) as caught:
        replace(follower, move=certify_and_discard).follow(Limits(1), discard_after_round)
    assert caught.value.path == follower_place(follower.target)
    assert not [*open_store(home).list(run_directory(follower.target))]


def test_round_begun_by_another_plan_is_made_anew(job: Checkpoints, home: str) -> None:
    follower = follower_of(job, home)
    follow(follower, 0)
    checkpoints_follow(job, [4])
    claim(plan_rescale(job.newest, round_target(follower.target, 4), ["2"]))
    (new_round,) = follow(follower, 1)
    assert new_round.kind is RoundKind.ROUND


@pytest.mark.parametrize("was_published", [False, True])
def test_killed_removal_of_a_round_is_finished(
    job: Checkpoints, home: str, was_published: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round was begun by another plan. Its removal is killed after each file that it deletes."""
    follower, store = follower_of(job, home), open_store(home)
    follow(follower, 0)
    checkpoints_follow(job, [4])
    plan = plan_rescale(job.newest, round_target(follower.target, 4), ["2"])
    claim(plan)
    move(plan, InProcessTasks(2, None))
    if was_published:
        store.put(places_of(plan).published, b"")
    delete, kill_count = store.delete, 0

    def be_killed_after_a_file(_: object, uris: Iterable[str]) -> None:
        uris = list(uris)
        delete(uris[:1])
        if uris and digest_of_claim(plan.target) in (None, plan.digest):
            raise KeyboardInterrupt

    with monkeypatch.context() as patches:
        patches.setattr(type(store), "delete", be_killed_after_a_file)
        while digest_of_claim(plan.target) == plan.digest:
            with pytest.raises(KeyboardInterrupt):
                follow(follower, 1)
            kill_count += 1
    assert kill_count > 5
    (new_round,) = follow(follower, 1)
    assert new_round.kind is RoundKind.ROUND
