"""What is published is what was validated: every file of it, and a published result is looked at again."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any

import pytest

from rescale.cli.main import main
from rescale.errors import IntegrityError, RequestError, SnapshotError, StoreError
from rescale.execution.loop import Loop
from rescale.execution.steps import validate_coverage
from rescale.flink.metadata.reader import read_metadata
from rescale.planning.values.plan import Plan
from rescale.planning.values.proof import Proof
from rescale.storage.locations import join, name, parent
from rescale.storage.store import Entry, open_store
from rescale.target import publication
from rescale.target.candidate import put_candidate
from rescale.target.certificate import certificate_for, write_certificate
from rescale.target.certified_files import certified_files
from rescale.target.claim import claim, planned_names
from rescale.target.documents import load_plan, read_document
from rescale.target.places import discarding_place, places_of
from rescale.target.publication import is_published, publish, was_published
from rescale.target.removal import discard
from rescale.target.states import Claim, State, claim_on, refuse_unpublished, state_of
from support import snapshots
from support.pipeline import execute_without_spark, move, plan_rescale
from support.s3 import S3Server

SOURCE = snapshots.directory("2-finished")


@pytest.fixture(params=["local", "s3"])
def plan(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """One whose result has files, however small."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    home = str(tmp_path / "home")
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3")
        server.create_bucket(bucket := f"publication-{uuid.uuid4().hex[:12]}")
        home = f"s3://{bucket}"
    return plan_rescale(SOURCE, join(home, "target"), ["3"])


def delete(uri: str) -> None:
    open_store(uri).delete([uri])


def cut(uri: str) -> None:
    store = open_store(uri)
    store.put(uri, store.read_all(uri, 1 << 20)[0][:-1])


def flip(uri: str) -> None:
    store = open_store(uri)
    data = bytearray(store.read_all(uri, 1 << 20)[0])
    data[-1] ^= 1
    store.put(uri, bytes(data))


DAMAGES = pytest.mark.parametrize("damage", [delete, cut, flip])
Damage = Callable[[str], None]


def files(plan: Plan) -> list[str]:
    return [entry.uri for entry in open_store(plan.target).list(plan.target) if name(entry.uri) != "_metadata"]


def validated(plan: Plan) -> None:
    move(plan, Loop())
    validate_coverage(plan, Loop())


@DAMAGES
def test_a_file_that_changed_after_validation_is_not_published(plan: Plan, damage: Damage) -> None:
    validated(plan)
    damaged = files(plan)[1]
    damage(damaged)
    with pytest.raises(IntegrityError, match="nothing was published") as caught:
        publish(plan)
    assert caught.value.path == damaged
    assert "bytes" in str(caught.value.expected)
    assert open_store(plan.target).stat(places_of(plan).metadata) is None
    if damage is flip:  # it has its planned size: it is not written again, and not certified either
        with pytest.raises(IntegrityError):
            execute_without_spark(plan)
    else:
        assert not execute_without_spark(plan).already
        assert is_published(plan)


@dataclass
class Misreading:
    """Of one document a byte is another one, at the first look or at every one."""

    uri: str
    for_ever: bool = False
    looks: int = 0

    def install(self, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
        store = type(open_store(plan.target))
        read_all = store.read_all

        def misread(self_: Any, uri: str, *rest: Any) -> tuple[bytes, Any]:
            data, pin = read_all(self_, uri, *rest)
            if uri != self.uri:
                return data, pin
            self.looks += 1
            wrong = self.for_ever or self.looks == 1
            return (data[:20] + bytes([data[20] ^ 0x80]) + data[21:] if wrong else data), pin

        monkeypatch.setattr(store, "read_all", misread)


@pytest.mark.parametrize("document", ["plan", "claim", "certificate", "candidate"])
def test_a_document_that_publish_misreads_once_is_not_told_as_damage(
    plan: Plan, document: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    validated(plan)
    uri = str(getattr(places_of(plan), document))
    with monkeypatch.context() as context:
        Misreading(uri).install(plan, context)
        with pytest.raises(StoreError, match="did not read the same twice"):
            publish(load_plan(places_of(plan).plan))
    assert not is_published(plan)
    assert not publish(load_plan(places_of(plan).plan)).already


@pytest.mark.parametrize("document", ["plan", "claim", "certificate", "candidate"])
def test_a_document_that_stays_damaged_ends_the_run(plan: Plan, document: str, monkeypatch: pytest.MonkeyPatch) -> None:
    validated(plan)
    misreading = Misreading(str(getattr(places_of(plan), document)), for_ever=True)
    misreading.install(plan, monkeypatch)
    with pytest.raises((IntegrityError, RequestError, SnapshotError)):
        publish(load_plan(places_of(plan).plan))
    assert misreading.looks >= 2


def test_a_misread_result_that_stands_there_is_still_ones_own(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    execute_without_spark(plan)
    Misreading(places_of(plan).metadata).install(plan, monkeypatch)
    assert publish(plan).already


@DAMAGES
def test_a_file_that_changed_after_publication_is_named(
    plan: Plan, damage: Damage, capsys: pytest.CaptureFixture[str]
) -> None:
    execute_without_spark(plan)
    assert publish(plan).already
    damaged = files(plan)[-1]
    damage(damaged)
    capsys.readouterr()
    words = ["run", SOURCE, "--target", plan.target, "--parallelism", "3", "--output", "json"]
    assert main(words) == 4
    error = json.loads(capsys.readouterr().out)
    assert (error["error"], error["path"]) == ("IntegrityError", damaged)
    assert "nothing was published" not in error["what"]


def test_a_result_that_lost_a_file_is_not_mended_once_it_is_published(plan: Plan) -> None:
    execute_without_spark(plan)
    lost = files(plan)[0]
    delete(lost)
    with pytest.raises(IntegrityError, match="published, and not whole") as caught:
        move(plan, Loop())
    assert caught.value.path == lost


def test_a_file_that_changes_while_it_is_compared_has_no_certificate(plan: Plan) -> None:
    move(plan, Loop())
    store = open_store(plan.target)
    seen = [(uri, pin) for uri in files(plan) if (pin := store.stat(uri)) is not None]
    assert [file.name for file in certified_files(plan.target, seen)] == [name(uri) for uri, _ in seen]
    if plan.target.startswith("/"):
        os.utime(seen[0][0], ns=(0, 1))
    else:
        flip(seen[0][0])
    with pytest.raises(StoreError, match="changed while it was compared") as caught:
        certified_files(plan.target, seen)
    assert caught.value.path == seen[0][0]


def test_a_result_that_is_discarded_while_it_is_published_is_not_published(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    move(plan, Loop())
    validate_coverage(plan, Loop())
    monkeypatch.setattr("rescale.target.publication.check_files", lambda *_, **__: discard(plan.target))
    with pytest.raises(RequestError, match="discarded while it was to be published"):
        publish(plan)
    assert open_store(plan.target).list(plan.target) == []


class Killed(BaseException):
    """Nothing of ours may catch it."""


def kill_at(place: str, plan: Plan, monkeypatch: pytest.MonkeyPatch, *, after: bool = False) -> None:
    """Publishes, and is killed before the put there is carried out, or after it."""
    store = open_store(plan.target)

    def killing(put: Callable[[str, bytes], object]) -> Callable[[str, bytes], object]:
        def putting(uri: str, data: bytes) -> object:
            if uri == place and not after:
                raise Killed
            done = put(uri, data)
            if uri == place:
                raise Killed
            return done

        return putting

    with monkeypatch.context() as patched:
        patched.setattr(store, "put", killing(store.put))
        patched.setattr(store, "put_if_absent", killing(store.put_if_absent))
        with pytest.raises(Killed):
            publish(plan)


def test_who_is_killed_before_he_publishes_publishes_next_time(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """And until then nothing is discarded: it might have been after he had published."""
    validated(plan)
    kill_at(places_of(plan).metadata, plan, monkeypatch)
    before = files(plan)
    with pytest.raises(RequestError, match="about to be published, and may have been"):
        discard(plan.target)
    assert files(plan) == before
    assert not execute_without_spark(plan).already
    assert is_published(plan)


def test_what_was_published_by_who_was_killed_is_marked_by_who_finds_it(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    validated(plan)
    kill_at(places_of(plan).metadata, plan, monkeypatch, after=True)
    assert publish(plan).already
    delete(places_of(plan).metadata)  # as Flink does it with what it was started from in CLAIM mode
    assert state_of(plan.target, plan.digest) is State.GONE


def test_who_stood_still_finds_that_another_one_published(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """It checked everything before; a job was started from what its successor published, and owned it."""
    validated(plan)
    gone = places_of(plan).metadata

    def meanwhile(*_: object, **__: object) -> None:
        monkeypatch.undo()
        publish(plan)
        delete(gone)

    monkeypatch.setattr("rescale.target.publication.check_files", meanwhile)
    with pytest.raises(RequestError, match="a job that claimed it may still use its files"):
        publish(plan)
    assert open_store(gone).stat(gone) is None


def test_two_publishers_at_once_are_no_error(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    validated(plan)

    def meanwhile(*_: object, **__: object) -> None:
        monkeypatch.undo()
        publish(plan)

    monkeypatch.setattr("rescale.target.publication.check_files", meanwhile)
    publish(plan)
    assert is_published(plan)


def test_who_validates_late_speaks_of_what_is_published(plan: Plan) -> None:
    """Another validation had misread a name in the handles, which says nothing of the state, and was published."""
    execute_without_spark(plan)
    certificate, place = certificate_for(plan), places_of(plan).metadata
    source = read_metadata(read_document(join(SOURCE, "_metadata")), SOURCE)
    named = read_document(place)
    file = min(files(plan)).rpartition("/")[2].encode()
    published = named.replace(file, file.swapcase())
    assert published != named
    open_store(place).put(place, published)
    assert put_candidate(plan, source).sha256 == hashlib.sha256(published).hexdigest()
    with pytest.raises(IntegrityError, match="not what is published by now") as caught:
        write_certificate(plan, certificate)
    assert (caught.value.path, caught.value.expected) == (place, certificate.candidate_sha256)


def test_what_a_job_may_own_is_left_alone(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    execute_without_spark(plan)
    delete(places_of(plan).metadata)
    before = open_store(plan.target).list(parent(plan.target))
    for words in (
        ["run", SOURCE, "--target", plan.target, "--parallelism", "3"],
        ["discard", plan.target],
        ["validate", SOURCE, plan.target],
    ):
        capsys.readouterr()
        assert main([*words, "--output", "json"]) == 2
        error = json.loads(capsys.readouterr().out)
        assert "a job that claimed it may still use its files" in error["what"]
        assert error["path"] == plan.target
    with pytest.raises(RequestError, match="claimed by another plan") as refused:
        claim(plan_rescale(SOURCE, plan.target, ["2"]))
    assert refused.value.advice == "name another target"
    assert open_store(plan.target).list(parent(plan.target)) == before
    assert was_published(plan)


def test_where_no_file_is_left_another_run_may_begin(plan: Plan) -> None:
    execute_without_spark(plan)
    open_store(plan.target).delete([*files(plan), places_of(plan).metadata])
    with pytest.raises(RequestError, match="all of it is gone"):
        claim(plan)
    discard(plan.target)
    assert open_store(plan.target).list(f"{plan.target}.rescale") == []
    assert not execute_without_spark(plan).already


def test_a_discard_that_was_killed_keeps_nobody_from_publishing(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has given way to the other."""
    validated(plan)
    kill_at(places_of(plan).metadata, plan, monkeypatch)
    open_store(plan.target).put(discarding_place(plan.target), b"")
    with pytest.raises(RequestError, match="discarded while it was to be published"):
        publish(plan)
    with pytest.raises(RequestError, match="about to be published"):
        discard(plan.target)
    assert not publish(plan).already


def test_no_run_begins_where_discard_has_not_ended(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(_: object) -> None:
        raise KeyboardInterrupt

    move(plan, Loop())
    with monkeypatch.context() as patched:
        patched.setattr("rescale.target.removal.clear_leftovers", killed)
        with pytest.raises(KeyboardInterrupt):
            discard(plan.target)
    with pytest.raises(RequestError, match="being discarded"):
        move(plan, Loop())
    discard(plan.target)
    assert open_store(plan.target).list(f"{plan.target}.rescale") == []
    execute_without_spark(plan)


def late_writer(plan: Plan, monkeypatch: pytest.MonkeyPatch, *, files: int) -> None:
    """Writes so many files of the plan, each shortly before the target is listed."""
    store, left = open_store(plan.target), islice(cycle(sorted(planned_names(plan).whole)), files)
    listed = store.list

    def writing(directory: str) -> list[Entry]:
        if directory == plan.target and (late := next(left, None)) is not None:
            store.put(join(plan.target, late), b"late")
        return listed(directory)

    monkeypatch.setattr(store, "list", writing)


@pytest.mark.parametrize("until", ["delete", "list"])
def test_a_discard_that_stood_still_takes_nothing_of_a_new_run(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, until: str
) -> None:
    """Meanwhile another one has come to the end, and the same plan has published files with the same names."""
    move(plan, Loop())
    store = open_store(plan.target)
    real, turns = getattr(store, until), count()

    def stood_still(*arguments: Any) -> Any:
        result = real(*arguments)
        if next(turns) == 2:  # notes and documents are behind it
            with monkeypatch.context() as patched:
                patched.setattr(store, until, real)
                discard(plan.target)
                execute_without_spark(plan)
        return result

    with monkeypatch.context() as patched:
        patched.setattr(store, until, stood_still)
        with pytest.raises(RequestError, match="discarded by another one meanwhile"):
            discard(plan.target)
    assert is_published(plan)
    assert publish(plan).already


def test_what_is_written_while_it_is_discarded_goes_too(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    move(plan, Loop())
    with monkeypatch.context() as patched:
        late_writer(plan, patched, files=2)
        discard(plan.target)
    assert [open_store(place).list(place) for place in (plan.target, f"{plan.target}.rescale")] == [[], []]


def test_a_run_that_writes_on_and_on_is_to_be_ended_first(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    move(plan, Loop())
    with monkeypatch.context() as patched:
        late_writer(plan, patched, files=4)
        with pytest.raises(RequestError, match="goes on: it writes new files"):
            discard(plan.target)
    with pytest.raises(RequestError, match="being discarded"):
        move(plan, Loop())
    discard(plan.target)
    execute_without_spark(plan)


def test_what_comes_when_all_is_discarded_is_said_to_be_whose_it_is(plan: Plan) -> None:
    """And the run whose it is takes it over, or writes it again."""
    move(plan, Loop())
    late = files(plan)[0]
    discard(plan.target)
    open_store(late).put(late, b"late")
    with pytest.raises(RequestError, match="named as those of a run") as caught:
        discard(plan.target)
    assert plan.digest[:8] in str(caught.value.found)
    assert files(plan) == [late]
    other = plan_rescale(SOURCE, plan.target, ["4"])
    with pytest.raises(RequestError, match="the target is occupied"):
        move(other, Loop())
    execute_without_spark(plan)


def test_discard_believes_no_plan_that_is_not_the_one_that_was_stored(plan: Plan) -> None:
    move(plan, Loop())
    place, store = places_of(plan).plan, open_store(plan.target)
    stored = store.read_all(place, 1 << 20)[0]
    store.put(place, stored.replace(b'"chunk_size":4', b'"chunk_size":5'))
    before = store.list(plan.target)
    with pytest.raises(SnapshotError, match="another digest"):
        discard(plan.target)
    assert store.list(plan.target) == before
    store.put(place, stored)
    discard(plan.target)
    assert store.list(plan.target) == []


def test_discard_leaves_what_is_published_while_it_looks(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    move(plan, Loop())
    validate_coverage(plan, Loop())
    before = {entry.uri for entry in open_store(plan.target).list(plan.target)}

    def published_first(of: Plan) -> set[str]:
        publish(of)
        return planned_names(of)

    monkeypatch.setattr("rescale.target.removal.planned_names", published_first)
    with pytest.raises(RequestError, match="the target is published"):
        discard(plan.target)
    publish(plan)
    assert {entry.uri for entry in open_store(plan.target).list(plan.target)} == {*before, places_of(plan).metadata}


def test_a_damaged_certificate_is_an_answer_too(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    execute_without_spark(plan)
    place = places_of(plan).certificate
    for damage in (flip, cut):
        damage(place)
        capsys.readouterr()
        assert main(["run", SOURCE, "--target", plan.target, "--parallelism", "3", "--output", "json"]) == 4
        error = json.loads(capsys.readouterr().out)
        assert (error["error"], error["path"]) == ("IntegrityError", place)


def test_without_conditional_requests_it_is_put_once(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a store that may not know them."""

    def never(*_: object) -> bool:
        raise AssertionError("a conditional request, or one that would write over a published result")

    validated(plan)
    store = open_store(plan.target)
    monkeypatch.setattr(store, "put_if_absent", never)
    assert not publish(plan, accept_unconditional=True).already
    assert is_published(plan)
    put = store.put
    monkeypatch.setattr(store, "put", lambda uri, data: never() if uri.endswith("_metadata") else put(uri, data))
    again = publish(plan, accept_unconditional=True)
    assert (again.already, again.target, again.proof) == (True, plan.target, Proof.RECORDS)


def test_without_conditional_requests_what_another_one_put_meanwhile_is_seen(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    validated(plan)
    store = open_store(plan.target)
    put, metadata = store.put, places_of(plan).metadata
    monkeypatch.setattr(store, "put", lambda uri, data: put(uri, b"another's" if uri == metadata else data))
    with pytest.raises(RequestError, match="the target holds another published result"):
        publish(plan, accept_unconditional=True)


@pytest.mark.parametrize(("unconditional", "misread"), [(True, 1), (False, 9)])
def test_what_was_just_put_may_be_misread(
    unconditional: bool, misread: int, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody else can have put it, however often; else once."""
    validated(plan)
    metadata, left = places_of(plan).metadata, [b"misread"] * misread
    read = publication.read_document
    monkeypatch.setattr(publication, "read_document", lambda uri: left.pop() if uri == metadata and left else read(uri))
    assert not publish(plan, accept_unconditional=unconditional).already


def test_a_claim_that_reads_otherwise_at_once_is_not_gone_by(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    validated(plan)
    claims = iter([None, *[claim_on(plan.target)] * 9])
    monkeypatch.setattr(publication, "_claim_on", lambda _: next(claims))
    with pytest.raises(StoreError, match="did not read the same twice"):
        publish(plan)


def test_another_plans_certificate_is_none(plan: Plan) -> None:
    validated(plan)
    write_certificate(plan, replace(certificate_for(plan), plan="0" * 64))
    with pytest.raises(IntegrityError, match="another plan's; nothing was published") as caught:
        publish(plan)
    assert caught.value.path == places_of(plan).certificate
    assert not is_published(plan)


def test_another_candidate_than_the_certified_one_is_not_published(plan: Plan) -> None:
    validated(plan)
    open_store(plan.target).put(places_of(plan).candidate, b"another")
    with pytest.raises(IntegrityError, match="not the one that was validated") as caught:
        publish(plan)
    assert caught.value.path == places_of(plan).candidate
    assert open_store(plan.target).stat(places_of(plan).metadata) is None


def test_what_is_published_and_what_was_is_known(plan: Plan) -> None:
    assert not is_published(plan)
    validated(plan)
    assert (is_published(plan), was_published(plan)) == (False, False)
    publish(plan)
    assert (is_published(plan), was_published(plan)) == (True, True)
    delete(places_of(plan).candidate)
    assert not is_published(plan), "nothing says that it is this plan's"


def test_a_listing_that_is_behind_is_not_an_empty_target(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    execute_without_spark(plan)
    delete(places_of(plan).metadata)
    store = open_store(plan.target)
    listed = store.list

    def behind(_: str) -> list[Entry]:
        monkeypatch.setattr(store, "list", listed)
        return []

    monkeypatch.setattr(store, "list", behind)
    assert state_of(plan.target, plan.digest) is State.GONE


def test_what_was_published_is_said_to_have_gone(plan: Plan) -> None:
    refuse_unpublished(plan.target)
    validated(plan)
    with pytest.raises(RequestError, match="a run has begun here"):
        refuse_unpublished(plan.target)
    publish(plan)
    refuse_unpublished(plan.target)
    delete(places_of(plan).metadata)
    with pytest.raises(RequestError, match="may still use its files"):
        refuse_unpublished(plan.target)
    open_store(plan.target).delete(files(plan))
    with pytest.raises(RequestError, match="all of it is gone"):
        refuse_unpublished(plan.target)


def test_a_claim_that_is_misread_behind_the_mark_is_still_ones_own(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    validated(plan)
    document = open_store(plan.target).read_all(places_of(plan).claim, 1 << 20)[0]
    misread: list[Claim | None] = [Claim("0" * 64, {}, None)]
    mark = places_of(plan).publishing

    def read(target: str) -> Claim | None:
        is_behind = open_store(mark).stat(mark) is not None
        return misread.pop() if misread and is_behind else claim_on(target)

    monkeypatch.setattr("rescale.target.publication.claim_on", read)
    assert not publish(plan).already
    assert misread == []
    assert open_store(plan.target).read_all(places_of(plan).claim, 1 << 20)[0] == document


def test_who_finds_that_all_was_discarded_takes_his_mark_away(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what comes next would look as if it may have been published."""
    validated(plan)
    monkeypatch.setattr("rescale.target.publication.check_files", lambda *_, **__: discard(plan.target))
    with pytest.raises(RequestError, match="discarded while it was to be published"):
        publish(plan)
    assert open_store(plan.target).list(f"{plan.target}.rescale") == []
