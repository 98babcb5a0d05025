"""Files of rounds are linked or copied into the target while the job runs, and are not copied again at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.following import round_files
from rescale.plan.plan import Plan
from rescale.planning.request.request import make_request
from rescale.runstate import preparation
from rescale.runstate.claim import claim
from rescale.runstate.follower.rounds import RoundKind, round_target
from rescale.runstate.places import is_prepared_file, run_directory
from rescale.runstate.removal import discard
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.contract import Span
from rescale.storage.locations import is_s3, join, name
from rescale.storage.store import open_store
from rescale.text.errors import RequestError, StoreError
from rescale.text.units import human_bytes
from support.checkpoints import Checkpoints
from support.followers import checkpoints_follow, finish, follow, follower_of, with_other_backends


@pytest.fixture(autouse=True)
def _no_inline_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)


def tables_of(snapshot: Snapshot) -> set[str]:
    files = [file for operator in snapshot.operators for database in operator.databases for file in database.files]
    return {snapshot.files[file.extent.file][0] for file in files if file.name.endswith(".sst")}


def files_in(target: str) -> set[str]:
    return {name(entry.uri) for entry in open_store(target).list(target)}


@contextmanager
def no_copies() -> Iterator[None]:
    """Fail if a store links or copies a file in the `with` block."""
    with (
        patch("rescale.storage.files.local_store.LocalStore.keep", side_effect=AssertionError),
        patch("rescale.storage.s3.s3_store.S3Store.keep", side_effect=AssertionError),
    ):
        yield


def test_last_round_finds_the_files_of_the_base_in_the_target(job: Checkpoints, home: str) -> None:
    follower = follower_of(job, home)
    follow(follower, 0)
    base_tables = tables_of(open_snapshot(round_target(follower.target, 3)))
    names_ahead = files_in(follower.target)
    assert len(names_ahead) == len(base_tables) > 0
    assert all(map(is_prepared_file, names_ahead))
    if not is_s3(home):
        base_inodes = {(status.st_dev, status.st_ino) for uri in base_tables if (status := Path(uri).stat())}
        copy_statuses = [Path(follower.target, file).stat() for file in names_ahead]
        assert {(status.st_dev, status.st_ino) for status in copy_statuses} == base_inodes
    checkpoints_follow(job, [4])
    follow(follower, 1)
    assert files_in(follower.target) == names_ahead
    checkpoints_follow(job, [5])
    with no_copies():
        finish(follower)
    assert names_ahead <= files_in(follower.target)
    assert {name(uri) for uri in tables_of(open_snapshot(follower.target))} == names_ahead
    validate_published(job.newest, follower.target, InProcessTasks(2, None))


def test_follower_says_how_much_it_copies_ahead(job: Checkpoints, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "_FILES_BETWEEN_CHECKS", 2)
    monkeypatch.setattr(preparation, "_SECONDS_BETWEEN_LINES", 0.0)
    messages: list[str] = []
    follower = follower_of(job, home, messages)
    follow(follower, 0)
    files = [entry for entry in open_store(home).list(follower.target) if is_prepared_file(name(entry.uri))]
    size = human_bytes(sum(file.size for file in files))
    first_line, *progress_lines = [line for line in messages if " ahead" in line]
    assert first_line == f"copying {len(files)} files ahead into the target, {size}"
    assert [line.partition(" of ")[0] for line in progress_lines] == [str(at) for at in range(2, len(files), 2)]
    assert all(line.endswith(f" of {size}") for line in progress_lines)


def test_last_round_copies_files_that_are_missing(job: Checkpoints, home: str) -> None:
    follower = follower_of(job, home)
    follow(follower, 0)
    names_ahead = sorted(files_in(follower.target))
    open_store(home).delete([join(follower.target, names_ahead[0])])
    open_store(home).put(join(follower.target, names_ahead[1]), b"of another size")
    checkpoints_follow(job, [4])
    finish(follower)
    assert {*names_ahead} <= files_in(follower.target)
    validate_published(job.newest, follower.target, InProcessTasks(2, None))


def test_files_of_a_new_base_replace_those_of_the_old_one(job: Checkpoints, home: str) -> None:
    follower = follower_of(job, home)
    follow(follower, 0)
    names_before = files_in(follower.target)
    checkpoints_follow(job, [4])
    job.rewrite(with_other_backends)
    (new_round,) = follow(follower, 1)
    assert new_round.kind is RoundKind.BASE
    assert len(files_in(follower.target)) == len(names_before)
    assert not files_in(follower.target) & names_before
    finish(follower)
    validate_published(job.newest, follower.target, InProcessTasks(2, None))


def test_full_last_round_removes_the_files_that_were_copied_ahead(job: Checkpoints, home: str) -> None:
    follower = follower_of(job, home)
    follow(follower, 0)
    checkpoints_follow(job, [4])
    job.rewrite(with_other_backends)
    assert follower.plan_last().kind is RoundKind.BASE
    finish(follower)
    assert not [file for file in files_in(follower.target) if is_prepared_file(file)]
    validate_published(job.newest, follower.target, InProcessTasks(2, None))


def test_follower_that_got_a_store_error_between_two_copies_goes_on(job: Checkpoints, home: str) -> None:
    follower = follower_of(job, home)
    copied_uris: list[str] = []
    keep = preparation.keep

    def fail_second_copy(uri: str, source: Span, staging: str) -> None:
        if copied_uris:
            raise StoreError("the store is away", path=uri)
        keep(uri, source, staging)
        copied_uris.append(uri)

    with patch.object(preparation, "keep", fail_second_copy), pytest.raises(StoreError):
        follow(follower, 0)
    checkpoints_follow(job, [4])
    follow(follower_of(job, home), 1)
    assert len(files_in(follower.target)) == len(tables_of(open_snapshot(round_target(follower.target, 3))))


def test_nothing_is_copied_into_a_target_that_the_last_round_has_claimed(job: Checkpoints, home: str) -> None:
    """This holds if it is claimed before the copies begin, and while they are made."""
    follower = follower_of(job, home)
    with patch.object(round_files, "prepare_with_links"):
        follow(follower, 0)
    last_plan = follower.plan_last().prepared.plan
    refuse_claimed = preparation.refuse_claimed

    def claim_first(target: str) -> None:
        claim(last_plan, is_last_round=True)
        refuse_claimed(target)

    checkpoints_follow(job, [4])
    with patch.object(preparation, "refuse_claimed", claim_first):
        follow(follower_of(job, home), 1)
    assert files_in(follower.target) == set()
    checkpoints_follow(job, [5])
    with patch.object(preparation, "keep", side_effect=AssertionError):
        follow(follower_of(job, home), 1)
    finish(follower)
    validate_published(job.newest, follower.target, InProcessTasks(2, None))


@pytest.mark.parametrize("discarded_at", ["refuse_claimed", "begin_preparing"])
def test_discard_beside_a_follower_that_copies_ahead_leaves_nothing(
    job: Checkpoints, home: str, discarded_at: str
) -> None:
    follower = follower_of(job, home)
    original = getattr(preparation, discarded_at)

    def discard_first(argument: str | Plan) -> None:
        discard(follower.target)
        original(argument)

    with (
        patch.object(preparation, discarded_at, discard_first),
        pytest.raises(RequestError, match="no longer followed"),
    ):
        follow(follower, 0)
    for place in (follower.target, run_directory(follower.target)):
        assert not open_store(home).list(place)


def test_user_cannot_name_a_round_as_the_source_for_its_target(job: Checkpoints, home: str) -> None:
    follower = follower_of(job, home)
    follow(follower, 0)
    with pytest.raises(RequestError, match="must not lie inside the source"):
        make_request(round_target(follower.target, 3), follower.target)
