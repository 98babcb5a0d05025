"""Documents beside the target that are misread or damaged while the result is published."""

from __future__ import annotations

import json

import pytest

from rescale.cli.main import main
from rescale.plan.plan import Plan
from rescale.runstate import publication
from rescale.runstate.documents import load_plan
from rescale.runstate.places import places_of
from rescale.runstate.publication import is_published, publish
from rescale.runstate.states import Claim, State, claim_on, state_of
from rescale.storage.store import Entry, open_store
from rescale.text.errors import IntegrityError, RequestError, SnapshotError, StoreError
from support.pipeline import certify, execute_without_spark
from support.publishing import SOURCE, Misreading, cut, delete, flip


@pytest.mark.parametrize("document", ["plan", "claim", "certificate", "candidate"])
def test_document_that_publish_misreads_once_is_a_store_error(
    plan: Plan, document: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    certify(plan)
    uri = str(getattr(places_of(plan), document))
    with monkeypatch.context() as context:
        Misreading(uri).install(plan, context)
        with pytest.raises(StoreError, match="two reads of the"):
            publish(load_plan(places_of(plan).plan))
    assert not is_published(plan)
    assert not publish(load_plan(places_of(plan).plan)).was_already_published


@pytest.mark.parametrize("document", ["plan", "claim", "certificate", "candidate"])
def test_damaged_document_is_read_twice_and_refused_by_publish(
    plan: Plan, document: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    certify(plan)
    misreading = Misreading(str(getattr(places_of(plan), document)), for_ever=True)
    misreading.install(plan, monkeypatch)
    with pytest.raises((IntegrityError, RequestError, SnapshotError)):
        publish(load_plan(places_of(plan).plan))
    assert misreading.reads >= 2


def test_published_result_that_is_misread_once_counts_as_published(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    execute_without_spark(plan)
    Misreading(places_of(plan).metadata).install(plan, monkeypatch)
    assert publish(plan).was_already_published


def test_published_result_that_reads_differently_each_time_is_a_store_error(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute_without_spark(plan)
    metadata, readings = places_of(plan).metadata, iter([b"misread", b"misread otherwise"])
    read = publication.read_document
    monkeypatch.setattr(publication, "read_document", lambda uri: next(readings) if uri == metadata else read(uri))
    with pytest.raises(StoreError, match="two reads of the result differ"):
        publish(plan)


def test_run_over_a_damaged_certificate_ends_with_an_integrity_error(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    execute_without_spark(plan)
    place = places_of(plan).certificate
    for damage in (flip, cut):
        damage(place)
        capsys.readouterr()
        assert main(["run", SOURCE, "--target", plan.target, "--parallelism", "3", "--output", "json"]) == 4
        error = json.loads(capsys.readouterr().out)
        assert (error["error"], error["path"]) == ("IntegrityError", place)


@pytest.mark.parametrize(("accept_unconditional", "misread_count"), [(True, 1), (False, 9)])
def test_publish_reads_metadata_again_when_it_misread_what_it_put(
    accept_unconditional: bool, misread_count: int, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`publish` may misread `_metadata` any number of times if it was put conditionally.

    After an unconditional put it reads again only once, because another run may have written `_metadata` in between.
    """
    certify(plan)
    metadata, misreads = places_of(plan).metadata, [b"misread"] * misread_count
    read = publication.read_document
    monkeypatch.setattr(
        publication, "read_document", lambda uri: misreads.pop() if uri == metadata and misreads else read(uri)
    )
    assert not publish(plan, accept_unconditional=accept_unconditional).was_already_published


def test_claim_that_publish_misses_at_the_first_read_is_a_store_error(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    certify(plan)
    claims = iter([None, *[claim_on(plan.target)] * 9])
    monkeypatch.setattr(publication, "_claim_on", lambda _: next(claims))
    with pytest.raises(StoreError, match="two reads of the"):
        publish(plan)


def test_target_that_one_stale_listing_shows_empty_is_not_taken_for_emptied(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute_without_spark(plan)
    delete(places_of(plan).metadata)
    store = open_store(plan.target)
    list_files = store.list

    def list_nothing_once(_: str) -> list[Entry]:
        monkeypatch.setattr(store, "list", list_files)
        return []

    monkeypatch.setattr(store, "list", list_nothing_once)
    assert state_of(plan.target, plan.digest) is State.GONE


def test_claim_that_is_misread_once_after_the_publishing_mark_is_read_again(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    certify(plan)
    document = open_store(plan.target).read_all(places_of(plan).claim, 1 << 20)[0]
    misread_claims: list[Claim | None] = [Claim("0" * 64, {}, None)]
    mark = places_of(plan).publishing

    def read_claim(target: str) -> Claim | None:
        is_marked = open_store(mark).stat(mark) is not None
        return misread_claims.pop() if misread_claims and is_marked else claim_on(target)

    monkeypatch.setattr("rescale.runstate.publication.claim_on", read_claim)
    assert not publish(plan).was_already_published
    assert misread_claims == []
    assert open_store(plan.target).read_all(places_of(plan).claim, 1 << 20)[0] == document
