"""Publication of exactly the validated files, and checks of a published result."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from rescale.cli.main import main
from rescale.execution.steps import validate_coverage
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.metadata.reader import read_metadata
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.runstate.candidate import put_candidate
from rescale.runstate.certificate import certificate_for, write_certificate
from rescale.runstate.certified_files import certified_files
from rescale.runstate.claim import claim
from rescale.runstate.documents import read_document
from rescale.runstate.places import places_of
from rescale.runstate.publication import is_published, publish, was_published
from rescale.runstate.removal import discard
from rescale.runstate.states import State, refuse_unpublished, state_of
from rescale.storage.locations import join, name, parent
from rescale.storage.store import open_store
from rescale.text.errors import IntegrityError, RequestError, StoreError
from support.pipeline import certify, execute_without_spark, move, plan_rescale
from support.publishing import DAMAGES, SOURCE, Damage, delete, files, flip, kill_at


@DAMAGES
def test_result_with_a_file_that_changed_after_validation_is_not_published(plan: Plan, damage: Damage) -> None:
    certify(plan)
    damaged_uri = files(plan)[1]
    damage(damaged_uri)
    with pytest.raises(IntegrityError, match="nothing was published") as caught:
        publish(plan)
    assert caught.value.path == damaged_uri
    assert "bytes" in str(caught.value.expected)
    assert open_store(plan.target).stat(places_of(plan).metadata) is None
    if damage is flip:  # a run keeps a file of the planned size, whose content then is not the certified one
        with pytest.raises(IntegrityError):
            execute_without_spark(plan)
    else:
        assert not execute_without_spark(plan).was_already_published
        assert is_published(plan)


@DAMAGES
def test_run_names_the_file_that_changed_after_publication(
    plan: Plan, damage: Damage, capsys: pytest.CaptureFixture[str]
) -> None:
    execute_without_spark(plan)
    assert publish(plan).was_already_published
    damaged_uri = files(plan)[-1]
    damage(damaged_uri)
    capsys.readouterr()
    arguments = ["run", SOURCE, "--target", plan.target, "--parallelism", "3", "--output", "json"]
    assert main(arguments) == 4
    error = json.loads(capsys.readouterr().out)
    assert (error["error"], error["path"]) == ("IntegrityError", damaged_uri)
    assert "nothing was published" not in error["what"]


def test_run_with_a_changed_published_metadata_does_not_say_that_nothing_was_published(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    execute_without_spark(plan)
    flip(places_of(plan).metadata)
    capsys.readouterr()
    assert main(["run", SOURCE, "--target", plan.target, "--parallelism", "3", "--output", "json"]) == 4
    error = json.loads(capsys.readouterr().out)
    assert error["what"].endswith("; the result was published before")
    assert "start no job from it" in error["advice"]


def test_move_does_not_restore_a_lost_file_of_a_published_result(plan: Plan) -> None:
    execute_without_spark(plan)
    lost_uri = files(plan)[0]
    delete(lost_uri)
    with pytest.raises(IntegrityError, match="published result is incomplete") as caught:
        move(plan, InProcessTasks())
    assert caught.value.path == lost_uri


def test_target_file_that_changes_while_it_is_compared_is_not_certified(plan: Plan) -> None:
    move(plan, InProcessTasks())
    store = open_store(plan.target)
    pins = [(uri, pin) for uri in files(plan) if (pin := store.stat(uri)) is not None]
    assert [file.name for file in certified_files(plan.target, pins)] == [name(uri) for uri, _ in pins]
    if plan.target.startswith("/"):
        os.utime(pins[0][0], ns=(0, 1))
    else:
        flip(pins[0][0])
    with pytest.raises(StoreError, match="changed while it was compared") as caught:
        certified_files(plan.target, pins)
    assert caught.value.path == pins[0][0]


def test_publication_killed_before_it_puts_metadata_is_completed_by_the_next_run(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then a discard is refused, because the result may have been published."""
    certify(plan)
    kill_at(places_of(plan).metadata, plan, monkeypatch)
    before = files(plan)
    with pytest.raises(RequestError, match="about to be published, and may have been"):
        discard(plan.target)
    assert files(plan) == before
    assert not execute_without_spark(plan).was_already_published
    assert is_published(plan)


def test_publish_marks_the_result_of_a_publication_killed_after_it_put_metadata(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    certify(plan)
    kill_at(places_of(plan).metadata, plan, monkeypatch, after=True)
    assert publish(plan).was_already_published
    delete(places_of(plan).metadata)  # as Flink deletes a snapshot that it was started from in CLAIM mode
    assert state_of(plan.target, plan.digest) is State.GONE


def test_suspended_publication_does_not_restore_a_result_that_a_job_owns_meanwhile(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the checks of the publication, another run publishes, and a job that starts from the result owns it."""
    certify(plan)
    metadata = places_of(plan).metadata

    def publish_and_own(*_: object, **__: object) -> None:
        monkeypatch.undo()
        publish(plan)
        delete(metadata)

    monkeypatch.setattr("rescale.runstate.publication.check_files", publish_and_own)
    with pytest.raises(RequestError, match="a job that owns it may still use its files"):
        publish(plan)
    assert open_store(metadata).stat(metadata) is None


def test_publish_is_refused_when_a_discard_ends_between_the_checks_of_note_and_claim(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    certify(plan)

    def end_discard(_: str) -> bool:
        delete(places_of(plan).claim)
        return False

    monkeypatch.setattr("rescale.runstate.publication.is_being_discarded", end_discard)
    with pytest.raises(RequestError) as caught:
        publish(plan)
    assert caught.value.path == plan.target
    assert open_store(plan.target).stat(places_of(plan).metadata) is None


def test_two_concurrent_publications_of_one_plan_both_succeed(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    certify(plan)

    def publish_first(*_: object, **__: object) -> None:
        monkeypatch.undo()
        publish(plan)

    monkeypatch.setattr("rescale.runstate.publication.check_files", publish_first)
    assert publish(plan).was_already_published
    assert is_published(plan)


def test_certificate_for_another_candidate_than_the_published_one_is_not_written(plan: Plan) -> None:
    """Another validation has misread a file name in the handles, and its candidate was published."""
    execute_without_spark(plan)
    certificate, metadata_uri = certificate_for(plan), places_of(plan).metadata
    source = read_metadata(read_document(join(SOURCE, "_metadata")), SOURCE)
    document = read_document(metadata_uri)
    file = min(files(plan)).rpartition("/")[2].encode()
    published_bytes = document.replace(file, file.swapcase())
    assert published_bytes != document
    open_store(metadata_uri).put(metadata_uri, published_bytes)
    assert put_candidate(plan, source).sha256 == hashlib.sha256(published_bytes).hexdigest()
    with pytest.raises(IntegrityError, match="was published while this one was compared") as caught:
        write_certificate(plan, certificate)
    assert (caught.value.path, caught.value.expected) == (metadata_uri, certificate.candidate_sha256)


def test_validation_refuses_a_published_result_of_another_plan(plan: Plan, tmp_path: Path) -> None:
    """The other plan has the same source, but another parallelism."""
    execute_without_spark(plan)
    other = plan_rescale(SOURCE, str(tmp_path / "other"), ["2"])
    execute_without_spark(other)
    places, store = places_of(plan), open_store(plan.target)
    before = [read_document(place) for place in (places.candidate, places.certificate)]
    store.put(places.metadata, read_document(places_of(other).metadata))
    for entry in store.list(plan.target):
        if entry.uri != places.metadata:
            delete(entry.uri)
    for uri in files(other):
        open_store(plan.target).put(join(plan.target, name(uri)), open_store(uri).read_all(uri, 1 << 30)[0])
    for _ in range(2):
        with pytest.raises(RequestError, match="holds another published result") as caught:
            validate_coverage(plan, InProcessTasks())
        assert (caught.value.path, caught.value.found) == (places.metadata, "parallelism 2, max parallelism 16")
        assert not is_published(plan)
    assert [read_document(place) for place in (places.candidate, places.certificate)] == before


def test_killed_validation_of_a_published_result_leaves_it_uncertified_until_repeated(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result counts as published once its candidate equals its metadata, so the candidate is written last."""
    execute_without_spark(plan)
    places, store = places_of(plan), open_store(plan.target)
    store.put(places.candidate, b"of another reading of the handles")
    kill_at(
        places.candidate,
        plan,
        monkeypatch,
        work=lambda plan_to_validate: validate_coverage(plan_to_validate, InProcessTasks()),
    )
    assert not is_published(plan)
    validate_coverage(plan, InProcessTasks())
    assert is_published(plan)
    assert publish(plan).was_already_published


def test_commands_refuse_a_target_whose_published_metadata_is_gone(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    execute_without_spark(plan)
    delete(places_of(plan).metadata)
    before = open_store(plan.target).list(parent(plan.target))
    for arguments in (
        ["run", SOURCE, "--target", plan.target, "--parallelism", "3"],
        ["discard", plan.target],
        ["validate", SOURCE, plan.target],
    ):
        capsys.readouterr()
        assert main([*arguments, "--output", "json"]) == 2
        error = json.loads(capsys.readouterr().out)
        assert "a job that owns it may still use its files" in error["what"]
        assert error["path"] == plan.target
    with pytest.raises(RequestError, match="claimed by another plan") as caught:
        claim(plan_rescale(SOURCE, plan.target, ["2"]))
    assert caught.value.advice == "name another target"
    assert open_store(plan.target).list(parent(plan.target)) == before
    assert was_published(plan)


def test_target_whose_published_files_are_all_gone_is_free_after_discard(plan: Plan) -> None:
    execute_without_spark(plan)
    open_store(plan.target).delete([*files(plan), places_of(plan).metadata])
    with pytest.raises(RequestError, match="all of its files are gone"):
        claim(plan)
    discard(plan.target)
    assert open_store(plan.target).list(f"{plan.target}.rescale") == []
    assert not execute_without_spark(plan).was_already_published


def test_publish_that_accepts_unconditional_writes_puts_metadata_once(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store might not support conditional requests."""

    def refuse_put(*_: object) -> bool:
        raise AssertionError("a conditional request, or one that would write over a published result")

    certify(plan)
    store = open_store(plan.target)
    monkeypatch.setattr(store, "put_if_absent", refuse_put)
    assert not publish(plan, accept_unconditional=True).was_already_published
    assert is_published(plan)
    put = store.put
    monkeypatch.setattr(store, "put", lambda uri, data: refuse_put() if uri.endswith("_metadata") else put(uri, data))
    second_publication = publish(plan, accept_unconditional=True)
    assert (second_publication.was_already_published, second_publication.target, second_publication.proof) == (
        True,
        plan.target,
        Proof.RECORDS,
    )


def test_publish_with_unconditional_writes_refuses_other_metadata_put_meanwhile(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    certify(plan)
    store = open_store(plan.target)
    put, metadata = store.put, places_of(plan).metadata
    monkeypatch.setattr(store, "put", lambda uri, data: put(uri, b"another's" if uri == metadata else data))
    with pytest.raises(RequestError, match="the target holds another published result"):
        publish(plan, accept_unconditional=True)


def test_publish_refuses_the_certificate_of_another_plan(plan: Plan) -> None:
    certify(plan)
    write_certificate(plan, replace(certificate_for(plan), plan="0" * 64))
    with pytest.raises(IntegrityError, match="the certificate belongs to another plan") as caught:
        publish(plan)
    assert caught.value.path == places_of(plan).certificate
    assert not is_published(plan)


def test_publish_refuses_another_candidate_than_the_certified_one(plan: Plan) -> None:
    certify(plan)
    open_store(plan.target).put(places_of(plan).candidate, b"another")
    with pytest.raises(IntegrityError, match="not the validated one") as caught:
        publish(plan)
    assert caught.value.path == places_of(plan).candidate
    assert open_store(plan.target).stat(places_of(plan).metadata) is None


def test_is_published_and_was_published_before_and_after_publication(plan: Plan) -> None:
    assert not is_published(plan)
    certify(plan)
    assert (is_published(plan), was_published(plan)) == (False, False)
    publish(plan)
    assert (is_published(plan), was_published(plan)) == (True, True)
    delete(places_of(plan).candidate)
    assert not is_published(plan), "without its candidate, a result belongs to no known plan"


def test_source_that_is_an_unpublished_or_vanished_result_is_refused(plan: Plan) -> None:
    refuse_unpublished(plan.target)
    certify(plan)
    with pytest.raises(RequestError, match="a run has claimed this target"):
        refuse_unpublished(plan.target)
    publish(plan)
    refuse_unpublished(plan.target)
    delete(places_of(plan).metadata)
    with pytest.raises(RequestError, match="may still use its files"):
        refuse_unpublished(plan.target)
    open_store(plan.target).delete(files(plan))
    with pytest.raises(RequestError, match="all of its files are gone"):
        refuse_unpublished(plan.target)
