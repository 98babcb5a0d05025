"""Checks of a target and a source in real stores: what the store forbids, and that no probe remains."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rescale.doctor.checks import Check, CheckList, CheckOutcome
from rescale.doctor.source import check_source
from rescale.doctor.target import check_target
from rescale.runstate.claim import claim
from rescale.runstate.documents import store_plan
from rescale.runstate.places import is_document, is_staged, probe_place
from rescale.runstate.removal import discard
from rescale.storage.contract import CopyRefused
from rescale.storage.files.local_store import LocalStore
from rescale.storage.s3.s3_store import S3Store
from rescale.storage.store import open_store
from rescale.text.errors import LockedError, RequestError
from support import snapshots
from support.disks import disk_of
from support.pipeline import execute_without_spark, plan_rescale
from support.s3 import S3Server, put_files, unprotected_store
from support.slow import slow
from support.trees import tree
from support.users import without_access

SOURCE = snapshots.directory("2-clicks")

VERBS = (
    "list",
    "put a probe",
    "put a probe if",
    "read the probe",
    "copy ",
    "write a probe in parts",
    "compare the clock",
    "delete the probes",
)


@pytest.fixture(params=["s3", slow("uses_strict_s3")])
def server(request: pytest.FixtureRequest) -> S3Server:
    store_server: S3Server = request.getfixturevalue(request.param)
    return store_server


def checks_of(target: str, source: str | None = None) -> list[Check]:
    check_target(checks := CheckList(), target, source)
    return checks.done


def outcomes_not_ok(checks: list[Check]) -> dict[str, CheckOutcome]:
    """Return the outcomes that are not ok, by the verb that was tried."""
    return {
        next((verb for verb in reversed(VERBS) if check.tried.startswith(verb)), check.tried): check.outcome
        for check in checks
        if check.outcome is not CheckOutcome.OK
    }


def are_all_verbs_tried(checks: list[Check]) -> bool:
    return all(check.tried.startswith(verb) for check, verb in zip(checks, VERBS, strict=True))


def open_uploads(server: S3Server, bucket: str) -> object:
    return server.client().list_multipart_uploads(Bucket=bucket).get("Uploads")


def test_checks_write_only_where_a_run_may_write(server: S3Server) -> None:
    """The policy of the tests lets a run write where its plan says, which is where the probes lie."""
    bucket = server.new_bucket("doctor")
    put_files(Path(SOURCE), f"s3://{bucket}/source")
    store_plan(plan_rescale(f"s3://{bucket}/source", f"s3://{bucket}/new", ["3"]))
    before = open_store(f"s3://{bucket}").list(f"s3://{bucket}")
    checks = checks_of(f"s3://{bucket}/new", f"s3://{bucket}/source")
    assert (are_all_verbs_tried(checks), outcomes_not_ok(checks)) == (True, {})
    assert "copy _metadata of the source within the store" in [check.tried for check in checks]
    assert open_store(f"s3://{bucket}").list(f"s3://{bucket}") == before
    assert open_uploads(server, bucket) is None
    assert server.take_refused() == []


def test_bucket_policy_that_forbids_writes_is_an_error(server: S3Server) -> None:
    bucket = server.new_bucket("doctor")
    checks = checks_of(f"s3://{bucket}/new")
    refused_requests = server.take_refused()
    assert outcomes_not_ok(checks) == dict.fromkeys(
        ["put a probe", "put a probe if", "write a probe in parts"], CheckOutcome.ERROR
    )
    errors = [check for check in checks if check.outcome is CheckOutcome.ERROR]
    assert all(f"path: s3://{bucket}/new.rescale/probe-" in check.result and check.advice for check in errors)
    assert refused_requests
    assert all(re.match(rf"(PUT|POST) /{bucket}/new\.rescale/probe-", line) for line in refused_requests)


def test_missing_bucket_is_an_error(server: S3Server) -> None:
    checks = checks_of("s3://nobody-has-this-bucket/new")
    assert set(outcomes_not_ok(checks).values()) == {CheckOutcome.ERROR}
    assert "nobody-has-this-bucket" in checks[0].result
    server.take_refused()


def test_unreachable_endpoint_gives_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setattr("rescale.storage.s3.s3_client.ATTEMPTS", 1)
    store = S3Store()
    monkeypatch.setattr("rescale.storage.store._s3", lambda: store)
    (check,) = checks_of("s3://bucket/new")
    assert check.outcome is CheckOutcome.ERROR
    assert check.result.startswith("S3 cannot be reached")


def test_checks_of_a_local_target_leave_nothing(tmp_path: Path) -> None:
    checks = checks_of(str(tmp_path / "not" / "yet" / "new"), SOURCE)
    assert (are_all_verbs_tried(checks), outcomes_not_ok(checks)) == (True, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "target", "message"),
    [
        ("new", "new", "the target is a file"),
        ("_metadata", "new", "the target must not lie inside a snapshot"),
        ("file", "new.rescale", "the target has the name of a directory in which Rescale keeps the documents"),
    ],
)
def test_target_that_a_run_would_refuse_for_its_place_is_an_error(
    tmp_path: Path, file: str, target: str, message: str
) -> None:
    (tmp_path / file).write_bytes(b"x")
    (check,) = checks_of(str(tmp_path / target))
    assert check.outcome is CheckOutcome.ERROR
    assert check.result.startswith(message)
    assert check.advice


def test_advice_to_discard_quotes_the_target(tmp_path: Path) -> None:
    plan = plan_rescale(SOURCE, str(tmp_path / "a target"), ["3"])
    claim(plan)
    (check,) = (check for check in checks_of(plan.target) if check.outcome is CheckOutcome.WARNING)
    assert f"rescale discard '{plan.target}'" in str(check.advice)


def test_published_target_is_warned_of_and_not_changed(tmp_path: Path) -> None:
    plan = plan_rescale(SOURCE, str(tmp_path / "target"), ["3"])
    execute_without_spark(plan)
    before = tree(tmp_path)
    assert outcomes_not_ok(checks_of(plan.target, SOURCE)) == {"list": CheckOutcome.WARNING}
    after = tree(tmp_path)
    documents = before.pop("target.rescale")
    assert after.pop("target.rescale")._replace(mtime_ns=documents.mtime_ns) == documents
    assert after == before


def test_foreign_files_in_the_target_are_warned_of(tmp_path: Path) -> None:
    target = tmp_path / "new"
    target.mkdir()
    (target / "mine").write_text("somebody's")
    assert outcomes_not_ok(checks_of(str(target))) == {"list": CheckOutcome.WARNING}
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "mine"]


def test_foreign_directory_in_place_of_the_documents_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "new.rescale").mkdir()
    (tmp_path / "new.rescale" / "mine").write_text("somebody's")
    (check,) = checks_of(str(tmp_path / "new"))
    assert check.outcome is CheckOutcome.ERROR
    assert "Rescale did not make this directory" in check.result
    assert [path.name for path in tmp_path.rglob("*")] == ["new.rescale", "mine"]


def test_target_around_the_source_is_an_error() -> None:
    (check,) = checks_of(str(Path(SOURCE).parent), SOURCE)
    assert check.outcome is CheckOutcome.ERROR
    assert "must not lie inside the source, nor contain it" in check.result


def test_read_only_directory_is_an_error(tmp_path: Path) -> None:
    with disk_of(1 << 20, tmp_path / "disk") as disk:
        disk.make_read_only()
        checks = checks_of(f"{disk.path}/new")
    assert CheckOutcome.ERROR in outcomes_not_ok(checks).values()
    assert "Read-only file system" in next(check.result for check in checks if check.outcome is CheckOutcome.ERROR)


@pytest.mark.parametrize("method", ["put_if_absent", "honours_conditions"])
def test_store_that_misunderstands_conditions_is_an_error(
    method: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = s3.new_bucket("doctor")
    s3.declare(f"s3://{bucket}")
    monkeypatch.setattr(S3Store, method, lambda *_: False)
    checks = checks_of(f"s3://{bucket}/new")
    assert outcomes_not_ok(checks) == {"put a probe if": CheckOutcome.ERROR}
    advice = next(check.advice for check in checks if check.outcome is CheckOutcome.ERROR)
    assert "--accept-unconditional-publish" in (advice or "")


def test_faults_that_a_run_survives_are_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise CopyRefused("AccessDenied")

    def delete_unless_locked(store: LocalStore, uris: list[str]) -> None:
        if any(uri.endswith("-put") for uri in uris):
            raise LockedError("nobody may delete this object yet", found="locked until tomorrow")
        delete(store, uris)

    delete = LocalStore.delete

    monkeypatch.setattr(LocalStore, "copy", refuse)
    monkeypatch.setattr(LocalStore, "delete", delete_unless_locked)
    monkeypatch.setattr(LocalStore, "modification_time", lambda *_: datetime.now(UTC) - timedelta(hours=1))
    checks = checks_of(str(tmp_path / "new"))
    verbs = ("copy ", "compare the clock", "delete the probes")
    assert outcomes_not_ok(checks) == dict.fromkeys(verbs, CheckOutcome.WARNING)
    assert "3600 s ahead" in next(check.result for check in checks if check.tried.startswith("compare"))


@pytest.mark.parametrize("store", [S3Store, LocalStore])
@pytest.mark.parametrize("method", ["put_part", "complete_parts"])
def test_failed_upload_is_not_left_open(
    store: type[S3Store | LocalStore], method: str, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RequestError("no parts here", advice="ask who runs the store")

    bucket = s3.new_bucket("doctor")
    s3.declare(f"s3://{bucket}")
    monkeypatch.setattr(store, method, refuse)
    checks = checks_of(f"s3://{bucket}/new" if store is S3Store else str(tmp_path / "new"))
    assert outcomes_not_ok(checks) == {"write a probe in parts": CheckOutcome.ERROR}
    assert open_uploads(s3, bucket) is None
    assert open_store(f"s3://{bucket}").list(f"s3://{bucket}") == []
    assert list(tmp_path.iterdir()) == []


def test_probes_of_a_killed_process_are_removed_by_discard(tmp_path: Path) -> None:
    target = str(tmp_path / "new")
    probe = probe_place(target, f"{'0' * 32}-put")
    unprotected_store(target).put(probe, b"left")
    assert is_document(target, probe)
    assert is_staged(f"probe-{'0' * 32}-parts.{'1' * 32}")
    assert discard(target).left == ()
    assert list(tmp_path.iterdir()) == []


def test_source_is_only_read(s3: S3Server) -> None:
    bucket = s3.new_bucket("doctor")
    put_files(Path(SOURCE), f"s3://{bucket}/source")
    check_source(checks := CheckList(), f"s3://{bucket}/source")
    assert [check.outcome for check in checks.done] == [CheckOutcome.OK, CheckOutcome.OK]
    assert s3.take_refused() == []


def test_directory_without_a_snapshot_is_an_error(tmp_path: Path) -> None:
    assert check_source(checks := CheckList(), str(tmp_path)) is None
    assert [check.outcome for check in checks.done] == [CheckOutcome.OK, CheckOutcome.ERROR]
    assert checks.done[1].advice


def test_source_without_access_is_an_error(tmp_path: Path) -> None:
    with without_access(tmp_path):
        assert check_source(checks := CheckList(), str(tmp_path / "source")) is None
    assert [check.outcome for check in checks.done] == [CheckOutcome.ERROR, CheckOutcome.ERROR]
    assert "Permission denied" in checks.done[0].result


def test_source_with_missing_files_is_an_error(tmp_path: Path) -> None:
    for path in Path(SOURCE).iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    next(path for path in tmp_path.iterdir() if path.name != "_metadata").unlink()
    check_source(checks := CheckList(), str(tmp_path))
    assert checks.done[1].outcome is CheckOutcome.ERROR
