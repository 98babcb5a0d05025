"""A discard at the same time as a run, a publication or another discard: each gives way to the other."""

from __future__ import annotations

from itertools import count, cycle, islice
from typing import Any

import pytest

from rescale.execution.tasks.in_process import InProcessTasks
from rescale.plan.plan import Plan
from rescale.runstate.claim import planned_names
from rescale.runstate.places import discarding_place, places_of
from rescale.runstate.publication import is_published, publish
from rescale.runstate.removal import discard
from rescale.storage.locations import join
from rescale.storage.store import Entry, open_store
from rescale.text.errors import RequestError, SnapshotError
from support.pipeline import certify, execute_without_spark, move, plan_rescale
from support.publishing import SOURCE, files, kill_at


def test_result_that_is_discarded_while_it_is_published_is_not_published(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark of the publication is removed as well; otherwise the next result might look published."""
    certify(plan)
    monkeypatch.setattr("rescale.runstate.publication.check_files", lambda *_, **__: discard(plan.target))
    with pytest.raises(RequestError, match="discarded before it was published"):
        publish(plan)
    assert [open_store(place).list(place) for place in (plan.target, f"{plan.target}.rescale")] == [[], []]


def test_result_is_published_after_publication_and_discard_gave_way_to_each_other(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A publication was killed, then a discard. The next publication and the next discard are each refused once."""
    certify(plan)
    kill_at(places_of(plan).metadata, plan, monkeypatch)
    open_store(plan.target).put(discarding_place(plan.target), b"")
    with pytest.raises(RequestError, match="discarded before it was published"):
        publish(plan)
    with pytest.raises(RequestError, match="about to be published"):
        discard(plan.target)
    assert not publish(plan).was_already_published


def test_run_is_refused_until_a_killed_discard_is_repeated(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    def be_killed(_: object) -> None:
        raise KeyboardInterrupt

    move(plan, InProcessTasks())
    with monkeypatch.context() as patched:
        patched.setattr("rescale.runstate.removal.clear_leftovers", be_killed)
        with pytest.raises(KeyboardInterrupt):
            discard(plan.target)
    with pytest.raises(RequestError, match="has started and not ended"):
        move(plan, InProcessTasks())
    discard(plan.target)
    assert open_store(plan.target).list(f"{plan.target}.rescale") == []
    execute_without_spark(plan)


def write_files_before_listings(plan: Plan, monkeypatch: pytest.MonkeyPatch, *, file_count: int) -> None:
    """Write this number of files of the plan, each shortly before a listing of the target."""
    store, names = open_store(plan.target), islice(cycle(sorted(planned_names(plan).names)), file_count)
    list_files = store.list

    def write_and_list(directory: str) -> list[Entry]:
        if directory == plan.target and (late_name := next(names, None)) is not None:
            store.put(join(plan.target, late_name), b"late")
        return list_files(directory)

    monkeypatch.setattr(store, "list", write_and_list)


@pytest.mark.parametrize("verb", ["delete", "list"])
def test_suspended_discard_removes_no_file_of_a_run_that_was_published_meanwhile(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Meanwhile another discard has ended, and the same plan has published files with the same names."""
    move(plan, InProcessTasks())
    store = open_store(plan.target)
    request, request_counter = getattr(store, verb), count()

    def answer_after_suspension(*arguments: Any) -> Any:
        result = request(*arguments)
        if next(request_counter) == 2:  # the requests before were for notes and documents
            with monkeypatch.context() as patched:
                patched.setattr(store, verb, request)
                discard(plan.target)
                execute_without_spark(plan)
        return result

    with monkeypatch.context() as patched:
        patched.setattr(store, verb, answer_after_suspension)
        with pytest.raises(RequestError, match="another discard of this target"):
            discard(plan.target)
    assert is_published(plan)
    assert publish(plan).was_already_published


def test_files_written_during_a_discard_are_removed(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    move(plan, InProcessTasks())
    with monkeypatch.context() as patched:
        write_files_before_listings(plan, patched, file_count=2)
        discard(plan.target)
    assert [open_store(place).list(place) for place in (plan.target, f"{plan.target}.rescale")] == [[], []]


def test_discard_is_refused_while_a_run_writes_new_files_again_and_again(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    move(plan, InProcessTasks())
    with monkeypatch.context() as patched:
        write_files_before_listings(plan, patched, file_count=4)
        with pytest.raises(RequestError, match="still active: it writes new files"):
            discard(plan.target)
    with pytest.raises(RequestError, match="has started and not ended"):
        move(plan, InProcessTasks())
    discard(plan.target)
    execute_without_spark(plan)


def test_file_written_after_a_discard_is_reported_with_the_plan_in_its_name(plan: Plan) -> None:
    """The run of that plan uses the file or writes it again. A run of another plan is refused."""
    move(plan, InProcessTasks())
    late_uri = files(plan)[0]
    discard(plan.target)
    open_store(late_uri).put(late_uri, b"late")
    with pytest.raises(RequestError, match="names like those of a run") as caught:
        discard(plan.target)
    assert plan.digest[:8] in str(caught.value.found)
    assert files(plan) == [late_uri]
    other_plan = plan_rescale(SOURCE, plan.target, ["4"])
    with pytest.raises(RequestError, match="the target is occupied"):
        move(other_plan, InProcessTasks())
    execute_without_spark(plan)


def test_discard_refuses_a_stored_plan_whose_digest_is_not_that_in_its_name(plan: Plan) -> None:
    move(plan, InProcessTasks())
    plan_uri, store = places_of(plan).plan, open_store(plan.target)
    document = store.read_all(plan_uri, 1 << 20)[0]
    store.put(plan_uri, document.replace(b'"chunk_size":4', b'"chunk_size":5'))
    before = store.list(plan.target)
    with pytest.raises(SnapshotError, match="not the one in its name"):
        discard(plan.target)
    assert store.list(plan.target) == before
    store.put(plan_uri, document)
    discard(plan.target)
    assert store.list(plan.target) == []


def test_discard_keeps_a_result_that_is_published_meanwhile(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    certify(plan)
    before = {entry.uri for entry in open_store(plan.target).list(plan.target)}

    def publish_first(plan: Plan) -> set[str]:
        publish(plan)
        return planned_names(plan)

    monkeypatch.setattr("rescale.runstate.removal.planned_names", publish_first)
    with pytest.raises(RequestError, match="the target is published"):
        discard(plan.target)
    publish(plan)
    assert {entry.uri for entry in open_store(plan.target).list(plan.target)} == {*before, places_of(plan).metadata}
