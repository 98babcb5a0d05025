"""`discard` removes the unpublished files of Rescale in and beside a target, and names those that it left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import pytest

from rescale.execution.tasks.in_process import InProcessTasks
from rescale.plan.plan import Plan
from rescale.runstate.claim import claim
from rescale.runstate.documents import put_document, store_plan
from rescale.runstate.follower.rounds import FollowedJob, begin_following
from rescale.runstate.places import discarding_place, follower_place, places_of, short_digest_in_name
from rescale.runstate.publication import publish
from rescale.runstate.removal import discard
from rescale.runstate.states import State, state_of
from rescale.storage.store import Entry, open_store
from rescale.text.errors import RequestError, StoreError
from support import snapshots
from support.pipeline import certify, execute_without_spark, move, plan_rescale

SOURCE = snapshots.directory("2-finished")


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Return a plan with a result of files, which are not inlined however small they are."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    return plan_rescale(SOURCE, str(tmp_path / "target"), ["3"])


def uris_around(plan: Plan) -> list[str]:
    return [entry.uri for entry in open_store(plan.target).list(str(Path(plan.target).parent))]


def recorded_deletions(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return a list to which each request for deletions adds its URIs."""
    store, batches = open_store(plan.target), list[list[str]]()
    delete = store.delete

    def delete_and_note(uris: Iterable[str]) -> None:
        batches.append([*uris])
        delete(batches[-1])

    monkeypatch.setattr(store, "delete", delete_and_note)
    return batches


def test_discard_removes_all_files_of_a_run_and_names_the_others_as_left(plan: Plan) -> None:
    certify(plan)
    put_document(places_of(plan).plan_page, b"a plan")
    put_document(places_of(plan).report, b"a page")
    put_document(places_of(plan).report_data, b"{}")
    run_uris = uris_around(plan)
    foreign_uris = [f"{plan.target}/notes.txt", f"{plan.target}.rescale/notes.txt", f"{plan.target}.rescale/a.txt"]
    for uri in foreign_uris:
        open_store(uri).put(uri, b"mine")
    removal = discard(plan.target)
    assert uris_around(plan) == sorted(foreign_uris)
    assert (sorted(removal.removed), removal.left) == (run_uris, tuple(sorted(foreign_uris)))


@pytest.mark.parametrize("killed_after", ["claim", "plan"])
def test_repeated_discard_removes_files_written_after_the_first_was_killed(
    plan: Plan, killed_after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task of the run still writes after a killed `discard` has removed everything but its note."""
    move(plan, InProcessTasks())
    store = open_store(plan.target)
    late_uri, delete = store.list(plan.target)[0].uri, store.delete

    def delete_until_killed(uris: Iterable[str]) -> None:
        uris = [*uris]
        delete(uris)
        if getattr(places_of(plan), killed_after) in uris:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(store, "delete", delete_until_killed)
        with pytest.raises(KeyboardInterrupt):
            discard(plan.target)
    foreign_uri = f"{plan.target}/{Path(late_uri).name[:-8]}00000000"
    for uri in (late_uri, foreign_uri):
        store.put(uri, b"late")
    assert discard(plan.target).left == (foreign_uri,)
    assert uris_around(plan) == [foreign_uri]


def test_discard_leaves_state_files_where_neither_claim_nor_note_exists(plan: Plan) -> None:
    execute_without_spark(plan)
    store = open_store(plan.target)
    store.delete([places_of(plan).claim, places_of(plan).metadata])
    uris = [entry.uri for entry in store.list(plan.target)]
    assert discard(plan.target).left == tuple(uris)


def test_discard_removes_plans_that_were_never_carried_out(plan: Plan) -> None:
    for stored_plan in (plan, plan_rescale(SOURCE, plan.target, ["2"])):
        store_plan(stored_plan)
        put_document(places_of(stored_plan).plan_page, b"a plan")
    open_store(plan.target).put(f"{plan.target}/notes.txt", b"mine")
    removal = discard(plan.target)
    assert (len(removal.removed), removal.left) == (4, (f"{plan.target}/notes.txt",))
    assert uris_around(plan) == [f"{plan.target}/notes.txt"]


def test_discard_removes_a_follower_beside_a_target_with_files_of_others(plan: Plan) -> None:
    begin_following(plan.target, FollowedJob("/checkpoints", {}), accept_unconditional=False)
    open_store(plan.target).put(f"{plan.target}/notes.txt", b"mine")
    removal = discard(plan.target)
    assert (removal.removed, removal.left) == ((follower_place(plan.target),), (f"{plan.target}/notes.txt",))
    assert uris_around(plan) == [f"{plan.target}/notes.txt"]


def test_discard_is_refused_where_rescale_left_no_file(plan: Plan) -> None:
    open_store(plan.target).put(f"{plan.target}/notes.txt", b"mine")
    with pytest.raises(RequestError, match="no run of Rescale has left files here") as caught:
        discard(plan.target)
    assert (caught.value.path, "1 file," in str(caught.value.found)) == (plan.target, True)
    assert "name the target" in str(caught.value.advice)
    assert uris_around(plan) == [f"{plan.target}/notes.txt"]


def test_discard_of_an_empty_target_removes_nothing(plan: Plan) -> None:
    assert (discard(plan.target).removed, discard(plan.target).left) == ((), ())


def test_discard_is_refused_where_a_snapshot_of_another_job_lies(plan: Plan) -> None:
    open_store(plan.target).put(places_of(plan).metadata, b"somebody's")
    with pytest.raises(RequestError, match="a snapshot of another plan or program"):
        discard(plan.target)
    assert uris_around(plan) == [places_of(plan).metadata], "no note of ours stays either"


def test_discard_keeps_a_file_of_another_plan_that_is_written_meanwhile(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A discard removes files that are written meanwhile only if they belong to the discarded plan."""
    move(plan, InProcessTasks())
    other_uri = f"{plan.target}/{'0' * 32}-keyed-0-{'0' * 8}"
    store = open_store(plan.target)
    delete = store.delete

    def delete_and_write(uris: Iterable[str]) -> None:
        delete(uris)
        store.put(other_uri, b"whose?")

    monkeypatch.setattr(store, "delete", delete_and_write)
    discard(plan.target)
    assert uris_around(plan) == [other_uri]


def test_discard_sends_deletions_only_for_existing_files(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rescale needs no permission to delete anything else."""
    claim(plan)
    store = open_store(plan.target)
    delete = store.delete
    absent_uris: list[str] = []

    def delete_and_note(uris: Iterable[str]) -> None:
        uris = list(uris)
        absent_uris.extend(uri for uri in uris if store.stat(uri) is None)
        delete(uris)

    monkeypatch.setattr(store, "delete", delete_and_note)
    discard(plan.target)
    assert absent_uris == []


def test_discard_deletes_the_certificate_first_and_claim_plan_and_note_last(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this order a discard that is killed at any point can be repeated, and no run begins over the files it left."""
    certify(plan)
    batches = recorded_deletions(plan, monkeypatch)
    discard(plan.target)
    deleted_names = [Path(uri).name for batch in batches for uri in batch]
    assert deleted_names[0] == "certificate.json"
    assert deleted_names[-3:] == ["claim", f"plan-{plan.digest}.json", "discarding"]
    assert len(deleted_names) == len(set(deleted_names))


def test_discard_deletes_files_in_batches_and_each_file_once(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.runstate.removal._FILES_BETWEEN_CHECKS", 2)
    move(plan, InProcessTasks())
    store = open_store(plan.target)
    uris = [entry.uri for entry in store.list(plan.target)]
    batches = recorded_deletions(plan, monkeypatch)
    discard(plan.target)
    file_batches = [batch for batch in batches if {*batch} & {*uris}]
    assert file_batches == [uris[at : at + 2] for at in range(0, len(uris), 2)]
    assert len(file_batches) > 1


@pytest.mark.parametrize("verb", ["delete", "stats"])
def test_discard_suspended_at_any_request_keeps_files_of_a_run_begun_meanwhile(
    plan: Plan, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile another discard has ended, and the same plan has written files with the same names again."""
    monkeypatch.setattr("rescale.runstate.removal._FILES_BETWEEN_CHECKS", 1)
    store = open_store(plan.target)
    request = getattr(store, verb)
    certify(plan)
    file_count = len(store.list(plan.target))
    before = uris_around(plan)
    requests_before_files = 3  # one request each: staged files, the certificate, the other documents
    requests_after_files = 4  # the publishing mark, the claim, the plan, the note
    for request_number in range(
        1,
        1
        + (
            requests_before_files + file_count + requests_after_files - 1
            if verb == "delete"
            else 1 + requests_after_files
        ),
    ):
        request_counter = count(1)

        def answer_after_suspension(
            uris: Iterable[str], request_counter: Iterator[int] = request_counter, request_number: int = request_number
        ) -> object:
            answer = request(uris)
            if next(request_counter) == request_number:
                monkeypatch.setattr(store, verb, request)
                discard(plan.target)
                certify(plan)
            return answer

        monkeypatch.setattr(store, verb, answer_after_suspension)
        with pytest.raises(RequestError, match="another discard of this target"):
            discard(plan.target)
        assert uris_around(plan) == before


def test_suspended_discard_keeps_staged_files_of_a_run_begun_meanwhile(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The discard is suspended after it has put its note and read the state of the target."""
    move(plan, InProcessTasks())
    store, staged_uri, call_counter = (
        open_store(plan.target),
        f"{places_of(plan).staging}/{'0' * 32}-keyed-0-12345678",
        count(1),
    )

    def answer_after_suspension(target: str, digest: str | None) -> State:
        state = state_of(target, digest)
        if next(call_counter) == 2:
            monkeypatch.setattr("rescale.runstate.removal.state_of", state_of)
            discard(target)
            claim(plan)
            store.put(staged_uri, b"staged")
        return state

    monkeypatch.setattr("rescale.runstate.removal.state_of", answer_after_suspension)
    with pytest.raises(RequestError, match="another discard of this target"):
        discard(plan.target)
    assert store.stat(staged_uri) is not None


def test_suspended_discard_of_an_unclaimed_target_keeps_a_run_published_meanwhile(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a claim the run cannot see the discard, so the discard stops wherever it was suspended."""
    store = open_store(plan.target)
    delete = store.delete
    for deletion_number in range(1, 5):  # staged files, documents, the publishing mark, the claim
        store_plan(plan)
        deletion_counter = count(1)

        def answer_after_suspension(
            uris: Iterable[str],
            deletion_counter: Iterator[int] = deletion_counter,
            deletion_number: int = deletion_number,
        ) -> None:
            delete(uris)
            if next(deletion_counter) == deletion_number:
                monkeypatch.setattr(store, "delete", delete)
                execute_without_spark(plan)

        monkeypatch.setattr(store, "delete", answer_after_suspension)
        with pytest.raises(RequestError, match="a run has claimed the target since this discard began") as caught:
            discard(plan.target)
        assert plan.digest[:8] in str(caught.value.found)
        assert state_of(plan.target, plan.digest) is State.PUBLISHED
        assert publish(plan).was_already_published
        store.delete(uris_around(plan))


def test_discard_on_a_full_disk_deletes_reports_and_staged_files_first(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    move(plan, InProcessTasks())
    put_document(places_of(plan).report, b"a page")
    put_document(places_of(plan).plan_page, b"a plan")
    store, staged_uri = open_store(plan.target), f"{places_of(plan).staging}/{'0' * 32}-keyed-0-12345678"
    store.put(staged_uri, b"staged")
    put = store.put

    def put_unless_full(uri: str, data: bytes) -> None:
        needless_uris = (places_of(plan).report, places_of(plan).plan_page, staged_uri)
        if any(store.stat(uri) is not None for uri in needless_uris):
            raise StoreError("no space left on device", path=uri)
        put(uri, data)

    monkeypatch.setattr(store, "put", put_unless_full)
    discard(plan.target)
    assert uris_around(plan) == []


def test_discard_that_cannot_put_its_note_deletes_nothing_of_the_run(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    move(plan, InProcessTasks())
    before = uris_around(plan)

    def fail_put(uri: str, _: bytes) -> None:
        raise StoreError("no space left on device", path=uri)

    monkeypatch.setattr(open_store(plan.target), "put", fail_put)
    with pytest.raises(StoreError, match="no space left"):
        discard(plan.target)
    assert uris_around(plan) == before


def test_refused_discard_leaves_no_note(plan: Plan) -> None:
    """With a note, no run could publish there."""
    certify(plan)
    note, mark = discarding_place(plan.target), places_of(plan).publishing
    for place in (note, mark):
        open_store(place).put(place, b"")
    with pytest.raises(RequestError, match="about to be published"):
        discard(plan.target)
    assert open_store(note).stat(note) is None
    assert state_of(plan.target, plan.digest) is State.PUBLISHING


def test_discard_is_refused_where_one_of_several_listings_shows_published_files(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result was published and its `_metadata` is gone, so a job may own the other files."""
    execute_without_spark(plan)
    store = open_store(plan.target)
    store.delete([places_of(plan).metadata])
    before, list_files = uris_around(plan), store.list
    listings_show_files = iter((False, False, True, False, False))

    def list_or_show_nothing(directory: str) -> list[Entry]:
        return list_files(directory) if directory != plan.target or next(listings_show_files, True) else []

    monkeypatch.setattr(store, "list", list_or_show_nothing)
    with pytest.raises(RequestError, match="may still use its files"):
        discard(plan.target)
    assert uris_around(plan) == before


def test_discard_of_an_emptied_target_keeps_a_file_that_appears_meanwhile(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute_without_spark(plan)
    store = open_store(plan.target)
    target_uris = [entry.uri for entry in store.list(plan.target)]
    store.delete(target_uris)
    state_uri = next(uri for uri in target_uris if short_digest_in_name(Path(uri).name) is not None)
    delete = store.delete

    def delete_and_restore(uris: Iterable[str]) -> None:
        delete(uris)
        store.put(state_uri, b"a job's")

    monkeypatch.setattr(store, "delete", delete_and_restore)
    discard(plan.target)
    assert uris_around(plan) == [state_uri]


def test_discard_of_a_target_without_files_removes_a_damaged_plan(plan: Plan) -> None:
    claim(plan)
    open_store(plan.target).put(places_of(plan).plan, b"damaged")
    discard(plan.target)
    assert uris_around(plan) == []


def test_discard_without_a_stored_plan_removes_files_with_its_digits_in_their_names(plan: Plan) -> None:
    """A suspended run may claim the target right after a discard has deleted the earlier claim and the plan."""
    move(plan, InProcessTasks())
    store = open_store(plan.target)
    store.put(discarding_place(plan.target), plan.digest.encode())
    store.delete([places_of(plan).plan])
    first_uri = store.list(plan.target)[0].uri
    foreign_uris = [f"{plan.target}/notes.txt", first_uri.replace(plan.digest[:8], "00000000")]
    for uri in foreign_uris:
        store.put(uri, b"mine")
    assert discard(plan.target).left == tuple(sorted(foreign_uris))
    assert uris_around(plan) == sorted(foreign_uris)
