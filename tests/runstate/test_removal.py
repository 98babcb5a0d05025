"""`discard` removes what is ours and unpublished, in and beside a target, and says what it left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import pytest

from rescale.execution.steps import validate_coverage
from rescale.execution.tasks.in_process import Loop
from rescale.plan.plan import Plan
from rescale.runstate.claim import claim
from rescale.runstate.documents import store_plan, store_plan_page, store_report, store_report_data
from rescale.runstate.places import discarding_place, places_of, plan_in_name
from rescale.runstate.publication import publish
from rescale.runstate.removal import discard
from rescale.runstate.states import State, state_of
from rescale.storage.store import Entry, open_store
from rescale.text.errors import RequestError, StoreError
from support import snapshots
from support.pipeline import execute_without_spark, move, plan_rescale

SOURCE = snapshots.directory("2-finished")


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Return a plan with a result of files, which are not inlined however small they are."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    return plan_rescale(SOURCE, str(tmp_path / "target"), ["3"])


def lying(plan: Plan) -> list[str]:
    return [entry.uri for entry in open_store(plan.target).list(str(Path(plan.target).parent))]


def test_all_of_a_run_goes_and_what_is_not_ours_stays_and_is_named(plan: Plan) -> None:
    move(plan, Loop())
    validate_coverage(plan, Loop())
    store_plan_page(plan, "a plan")
    store_report(plan, b"a page")
    store_report_data(plan, b"{}")
    ours = lying(plan)
    others = [f"{plan.target}/notes.txt", f"{plan.target}.rescale/notes.txt", f"{plan.target}.rescale/a.txt"]
    for uri in others:
        open_store(uri).put(uri, b"mine")
    done = discard(plan.target)
    assert lying(plan) == sorted(others)
    assert (sorted(done.removed), done.left) == (ours, tuple(sorted(others)))


@pytest.mark.parametrize("killed_behind", ["claim", "plan"])
def test_files_that_came_behind_the_claim_go_next_time(
    plan: Plan, killed_behind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task goes on, of a run that a killed `discard` has removed but for its note."""
    move(plan, Loop())
    store = open_store(plan.target)
    late, delete = store.list(plan.target)[0].uri, store.delete

    def deleting(uris: Iterable[str]) -> None:
        uris = [*uris]
        delete(uris)
        if getattr(places_of(plan), killed_behind) in uris:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(store, "delete", deleting)
        with pytest.raises(KeyboardInterrupt):
            discard(plan.target)
    others = f"{plan.target}/{Path(late).name[:-8]}00000000"
    for uri in (late, others):
        store.put(uri, b"late")
    assert discard(plan.target).left == (others,)
    assert lying(plan) == [others]


def test_without_a_claim_or_a_note_nobody_knows_whose_files_are(plan: Plan) -> None:
    execute_without_spark(plan)
    store = open_store(plan.target)
    store.delete([places_of(plan).claim, places_of(plan).metadata])
    files = [entry.uri for entry in store.list(plan.target)]
    assert discard(plan.target).left == tuple(files)


def test_plans_that_nobody_carried_out_go(plan: Plan) -> None:
    for stored_plan in (plan, plan_rescale(SOURCE, plan.target, ["2"])):
        store_plan(stored_plan)
        store_plan_page(stored_plan, "a plan")
    open_store(plan.target).put(f"{plan.target}/notes.txt", b"mine")
    done = discard(plan.target)
    assert (len(done.removed), done.left) == (4, (f"{plan.target}/notes.txt",))
    assert lying(plan) == [f"{plan.target}/notes.txt"]


def test_nothing_is_removed_where_nothing_is_ours(plan: Plan) -> None:
    open_store(plan.target).put(f"{plan.target}/notes.txt", b"mine")
    with pytest.raises(RequestError, match="no run of Rescale has left files here") as caught:
        discard(plan.target)
    assert (caught.value.path, "1 files" in str(caught.value.found)) == (plan.target, True)
    assert lying(plan) == [f"{plan.target}/notes.txt"]


def test_an_empty_place_is_discarded_already(plan: Plan) -> None:
    assert (discard(plan.target).removed, discard(plan.target).left) == ((), ())


def test_somebodys_checkpoint_is_not_called_ours(plan: Plan) -> None:
    open_store(plan.target).put(places_of(plan).metadata, b"somebody's")
    with pytest.raises(RequestError, match="a snapshot that is not ours"):
        discard(plan.target)
    assert lying(plan) == [places_of(plan).metadata], "no note of ours stays either"


def test_what_comes_under_another_plans_name_stays(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is discarded: only what this plan's tasks write late goes."""
    move(plan, Loop())
    other = f"{plan.target}/{'0' * 32}-keyed-0-{'0' * 8}"
    store = open_store(plan.target)
    delete = store.delete

    def written_meanwhile(uris: Iterable[str]) -> None:
        delete(uris)
        store.put(other, b"whose?")

    monkeypatch.setattr(store, "delete", written_meanwhile)
    discard(plan.target)
    assert lying(plan) == [other]


def test_only_what_is_there_is_deleted(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who may delete only our files is not asked for more."""
    claim(plan)
    store = open_store(plan.target)
    delete = store.delete
    asked: list[str] = []

    def noted(uris: Iterable[str]) -> None:
        uris = list(uris)
        asked.extend(uri for uri in uris if store.stat(uri) is None)
        delete(uris)

    monkeypatch.setattr(store, "delete", noted)
    discard(plan.target)
    assert asked == []


def test_the_claim_goes_after_all_that_it_speaks_for(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this order a discard that is killed anywhere can be repeated, and no run begins over what it left."""
    move(plan, Loop())
    validate_coverage(plan, Loop())
    store = open_store(plan.target)
    delete, order = store.delete, []

    def noted(uris: Iterable[str]) -> None:
        uris = list(uris)
        order.extend(Path(uri).name for uri in uris)
        delete(uris)

    monkeypatch.setattr(store, "delete", noted)
    discard(plan.target)
    assert order[0] == "certificate.json"
    assert order[-3:] == ["claim", f"plan-{plan.digest}.json", "discarding"]
    assert len(order) == len(set(order))


def test_many_files_go_in_batches_and_each_is_asked_for_once(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.runstate.removal._AT_ONCE", 2)
    move(plan, Loop())
    store = open_store(plan.target)
    files = [entry.uri for entry in store.list(plan.target)]
    delete, batches = store.delete, list[list[str]]()

    def noted(uris: Iterable[str]) -> None:
        batches.append([*uris])
        delete(batches[-1])

    monkeypatch.setattr(store, "delete", noted)
    discard(plan.target)
    of_files = [batch for batch in batches if {*batch} & {*files}]
    assert of_files == [files[at : at + 2] for at in range(0, len(files), 2)]
    assert len(of_files) > 1


@pytest.mark.parametrize("behind", ["delete", "stats"])
def test_whenever_it_stands_still_it_takes_nothing_of_a_run_that_began_meanwhile(
    plan: Plan, behind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another discard has come to the end, and the same plan has written files with the same names again."""
    monkeypatch.setattr("rescale.runstate.removal._AT_ONCE", 1)
    store = open_store(plan.target)
    request = getattr(store, behind)
    move(plan, Loop())
    validate_coverage(plan, Loop())
    files = len(store.list(plan.target))
    before = lying(plan)
    first = 3  # what is staged, the certificate, and the other documents
    last = 4  # the mark of what was published, the claim, the plan, the note
    for asked in range(1, 1 + (first + files + last - 1 if behind == "delete" else 1 + last)):
        turns = count(1)

        def stood_still(uris: Iterable[str], turns: Iterator[int] = turns, asked: int = asked) -> object:
            answer = request(uris)
            if next(turns) == asked:
                monkeypatch.setattr(store, behind, request)
                discard(plan.target)
                move(plan, Loop())
                validate_coverage(plan, Loop())
            return answer

        monkeypatch.setattr(store, behind, stood_still)
        with pytest.raises(RequestError, match="another discard of this target"):
            discard(plan.target)
        assert lying(plan) == before


def test_what_a_run_that_began_meanwhile_has_staged_stays(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stood still when it had looked what the target is, after it had put its note."""
    move(plan, Loop())
    store, staged, looks = open_store(plan.target), f"{places_of(plan).staging}/{'0' * 32}-keyed-0-12345678", count(1)

    def stood_still(target: str, digest: str | None) -> State:
        state = state_of(target, digest)
        if next(looks) == 2:
            monkeypatch.setattr("rescale.runstate.removal.state_of", state_of)
            discard(target)
            claim(plan)
            store.put(staged, b"staged")
        return state

    monkeypatch.setattr("rescale.runstate.removal.state_of", stood_still)
    with pytest.raises(RequestError, match="another discard of this target"):
        discard(plan.target)
    assert store.stat(staged) is not None


def test_plans_are_not_taken_from_a_run_that_began_meanwhile(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody had claimed the target, so nothing tells that run of a discard: whenever this one looks, it gives way."""
    store = open_store(plan.target)
    delete = store.delete
    for deleted in range(1, 5):  # what is staged, documents, the mark of what was published, the claim
        store_plan(plan)
        turns = count(1)

        def stood_still(uris: Iterable[str], turns: Iterator[int] = turns, deleted: int = deleted) -> None:
            delete(uris)
            if next(turns) == deleted:
                monkeypatch.setattr(store, "delete", delete)
                execute_without_spark(plan)

        monkeypatch.setattr(store, "delete", stood_still)
        with pytest.raises(RequestError, match="a run has claimed the target meanwhile") as caught:
            discard(plan.target)
        assert plan.digest[:8] in str(caught.value.found)
        assert state_of(plan.target, plan.digest) is State.PUBLISHED
        assert publish(plan).already
        store.delete(lying(plan))


def test_where_the_disk_is_full_what_nobody_needs_makes_room_for_the_note(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    move(plan, Loop())
    store_report(plan, b"a page")
    store_plan_page(plan, "a plan")
    store, staged = open_store(plan.target), f"{places_of(plan).staging}/{'0' * 32}-keyed-0-12345678"
    store.put(staged, b"staged")
    put = store.put

    def full(uri: str, data: bytes) -> None:
        needless = (places_of(plan).report, places_of(plan).plan_page, staged)
        if any(store.stat(uri) is not None for uri in needless):
            raise StoreError("no space left on device", path=uri)
        put(uri, data)

    monkeypatch.setattr(store, "put", full)
    discard(plan.target)
    assert lying(plan) == []


def test_a_full_disk_that_stays_full_ends_it_before_anything_of_the_run_goes(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    move(plan, Loop())
    before = lying(plan)

    def full(uri: str, _: bytes) -> None:
        raise StoreError("no space left on device", path=uri)

    monkeypatch.setattr(open_store(plan.target), "put", full)
    with pytest.raises(StoreError, match="no space left"):
        discard(plan.target)
    assert lying(plan) == before


def test_a_discard_that_is_refused_leaves_no_note(plan: Plan) -> None:
    """Else no run could publish there."""
    move(plan, Loop())
    validate_coverage(plan, Loop())
    note, mark = discarding_place(plan.target), places_of(plan).publishing
    for place in (note, mark):
        open_store(place).put(place, b"")
    with pytest.raises(RequestError, match="about to be published"):
        discard(plan.target)
    assert open_store(note).stat(note) is None
    assert state_of(plan.target, plan.digest) is State.PUBLISHING


def test_files_that_one_listing_shows_and_others_miss_are_a_jobs(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result was published, and its `_metadata` is gone: nothing else may go."""
    execute_without_spark(plan)
    store = open_store(plan.target)
    store.delete([places_of(plan).metadata])
    before, listed = lying(plan), store.list
    shows = iter((False, False, True, False, False))

    def behind(directory: str) -> list[Entry]:
        return listed(directory) if directory != plan.target or next(shows, True) else []

    monkeypatch.setattr(store, "list", behind)
    with pytest.raises(RequestError, match="may still use its files"):
        discard(plan.target)
    assert lying(plan) == before


def test_where_all_was_published_and_has_gone_nothing_else_goes(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    execute_without_spark(plan)
    store = open_store(plan.target)
    files = [entry.uri for entry in store.list(plan.target)]
    store.delete(files)
    file = next(uri for uri in files if plan_in_name(Path(uri).name) is not None)
    delete = store.delete

    def comes_back(uris: Iterable[str]) -> None:
        delete(uris)
        store.put(file, b"a job's")

    monkeypatch.setattr(store, "delete", comes_back)
    discard(plan.target)
    assert lying(plan) == [file]


def test_where_no_file_lies_a_damaged_plan_is_in_nobodys_way(plan: Plan) -> None:
    claim(plan)
    open_store(plan.target).put(places_of(plan).plan, b"damaged")
    discard(plan.target)
    assert lying(plan) == []


def test_what_was_claimed_while_its_plan_was_discarded_goes_by_the_plan_in_its_names(plan: Plan) -> None:
    """By one who stood still until the claim before had gone."""
    move(plan, Loop())
    store = open_store(plan.target)
    store.put(discarding_place(plan.target), plan.digest.encode())
    store.delete([places_of(plan).plan])
    first = store.list(plan.target)[0].uri
    others = [f"{plan.target}/notes.txt", first.replace(plan.digest[:8], "00000000")]
    for uri in others:
        store.put(uri, b"mine")
    assert discard(plan.target).left == tuple(sorted(others))
    assert lying(plan) == sorted(others)
