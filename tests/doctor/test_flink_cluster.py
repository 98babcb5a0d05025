"""Checks of Flink's REST API with prepared answers; `tests/airflow/flink` has them on a real cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rescale.doctor.checks import Check, CheckList, CheckOutcome
from rescale.doctor.flink_cluster import MOST_CHECKED_JOBS, check_flink
from rescale.text.errors import RequestError
from support.http_servers import LocalServer, QuietHandler, serving

JOB_ID = "0123456789abcdef" * 2
CHECKPOINT_CONFIG: dict[str, Any] = {
    "interval": 1000,
    "externalization": {"enabled": True, "delete_on_cancellation": False},
    "state_backend": "EmbeddedRocksDBStateBackend",
    "unaligned_checkpoints": False,
}


class FakeFlink(LocalServer):
    """Answers each path with a document or a status, and other paths with 404 as Flink does."""

    answer_by_path: dict[str, Any]


class _Handler(QuietHandler):
    server: FakeFlink

    def answer(self) -> None:
        answer = self.server.answer_by_path.get(self.path)
        status = answer if isinstance(answer, int) else 200 if answer is not None else 404
        self.reply(status, json.dumps({"errors": ["Not found"]} if answer is None else answer))


@pytest.fixture
def cluster() -> Iterator[FakeFlink]:
    """Yield a cluster with a job whose checkpoints need no warning."""
    with serving(FakeFlink(_Handler)) as server:
        latest_checkpoint = {"external_path": "s3://b/chk-1", "state_size": 1000, "checkpointed_size": 10}
        server.answer_by_path = {
            "/overview": {"flink-version": "2.1.0", "slots-total": 4},
            "/jobs/overview": {"jobs": [{"jid": JOB_ID, "name": "clicks", "state": "RUNNING"}]},
            "/jobmanager/config": [{"key": "execution.checkpointing.incremental", "value": "false"}],
            f"/jobs/{JOB_ID}/checkpoints/config": CHECKPOINT_CONFIG,
            f"/jobs/{JOB_ID}/checkpoints": {"latest": {"completed": latest_checkpoint}},
        }
        yield server


def checks_of(cluster: FakeFlink) -> list[Check]:
    check_flink(checks := CheckList(), cluster.address)
    return checks.done


def outcomes_not_ok(checks: list[Check]) -> list[tuple[CheckOutcome, str]]:
    return [(check.outcome, check.result) for check in checks if check.outcome is not CheckOutcome.OK]


def test_good_cluster_has_no_warning(cluster: FakeFlink) -> None:
    checks = checks_of(cluster)
    assert outcomes_not_ok(checks) == []
    results = [check.result for check in checks]
    assert results[:4] == ["Flink 2.1.0", "1 running job", "checkpoints are retained", "aligned checkpoints"]
    assert results[4] == "EmbeddedRocksDBStateBackend, incremental (the last one wrote 10 bytes of 1 kB)"


@pytest.mark.parametrize(
    ("change", "result"),
    [
        ({"unaligned_checkpoints": True}, "unaligned checkpoints"),
        (
            {"externalization": {"enabled": True, "delete_on_cancellation": True}},
            "checkpoints are deleted when the job is cancelled",
        ),
        ({"externalization": {"enabled": False}}, "checkpoints are deleted when the job is cancelled"),
        ({"interval": (1 << 63) - 1}, "no periodic checkpoints"),
        (
            {"state_backend": "HashMapStateBackend"},
            "HashMapStateBackend, incremental (the last one wrote 10 bytes of 1 kB)",
        ),
    ],
)
def test_unsuitable_checkpoints_are_warned_of(cluster: FakeFlink, change: dict[str, Any], result: str) -> None:
    cluster.answer_by_path[f"/jobs/{JOB_ID}/checkpoints/config"] = CHECKPOINT_CONFIG | change
    checks = checks_of(cluster)
    assert outcomes_not_ok(checks) == [(CheckOutcome.WARNING, result)]
    assert next(check.advice for check in checks if check.outcome is CheckOutcome.WARNING)


def test_full_checkpoints_are_warned_of(cluster: FakeFlink) -> None:
    cluster.answer_by_path[f"/jobs/{JOB_ID}/checkpoints"] = {"latest": {"completed": None}}
    ((outcome, result),) = outcomes_not_ok(checks_of(cluster))
    assert (outcome, "not known to be incremental (none yet)" in result) == (CheckOutcome.WARNING, True)
    cluster.answer_by_path["/jobmanager/config"] = [{"key": "state.backend.incremental", "value": "true"}]
    assert outcomes_not_ok(checks_of(cluster)) == []


def test_job_without_checkpoints_is_warned_of(cluster: FakeFlink) -> None:
    del cluster.answer_by_path[f"/jobs/{JOB_ID}/checkpoints/config"]
    assert outcomes_not_ok(checks_of(cluster)) == [(CheckOutcome.WARNING, "no periodic checkpoints")]


@pytest.mark.parametrize("release", ["1.14.6", "9.0-SNAPSHOT", "1", "unknown"])
def test_unknown_release_is_warned_of(cluster: FakeFlink, release: str) -> None:
    cluster.answer_by_path["/overview"] = {"flink-version": release}
    assert outcomes_not_ok(checks_of(cluster)) == [(CheckOutcome.WARNING, f"Flink {release}")]


def test_number_of_jobs_that_are_not_checked_is_reported(cluster: FakeFlink) -> None:
    cluster.answer_by_path["/jobs/overview"]["jobs"] *= MOST_CHECKED_JOBS + 2
    assert outcomes_not_ok(checks_of(cluster)) == [(CheckOutcome.WARNING, "2 jobs not checked")]


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (403, "Flink's REST API denies access"),
        (503, "Flink has a temporary problem"),
        ({"no": "version"}, "this address is not Flink's REST API"),
    ],
)
def test_server_that_is_not_flink_or_has_trouble_is_an_error(cluster: FakeFlink, answer: Any, result: str) -> None:
    cluster.answer_by_path["/overview"] = answer
    check = checks_of(cluster)[0]
    assert (check.outcome, check.result.partition(";")[0]) == (CheckOutcome.ERROR, result)
    assert "Airflow" not in (check.advice or "")


def test_unreachable_flink_is_an_error() -> None:
    check_flink(checks := CheckList(), "http://127.0.0.1:1")
    (check,) = checks.done
    assert check.outcome is CheckOutcome.ERROR
    assert check.result.startswith("Flink cannot be reached")


@pytest.mark.parametrize("address", ["jobmanager:8081", "ftp://jobmanager", "http://me:planted@jobmanager:8081"])
def test_invalid_address_is_refused_without_showing_its_secret(address: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_flink(CheckList(), address)
    assert "planted" not in str(caught.value)
