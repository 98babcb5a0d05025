"""Credentials that expire during a run.

If they are renewed, the run goes on. Otherwise an error says so, and a run with new credentials resumes it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from botocore.credentials import RefreshableCredentials

from rescale.airflow.connections.credentials import serve_credentials
from rescale.storage.locations import join
from rescale.storage.s3.s3_client import client_for
from rescale.storage.s3.s3_store import S3Store
from support import warm
from support.resuming import Case, assert_right
from support.s3 import S3Server
from support.slow import slow
from support.snapshots import directory
from support.wire import CARRIED_OUT, Treatment, WireRequest, wire_to

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@dataclass
class Account:
    """An account whose session tokens allow `requests_per_token` requests each. It counts tokens and refusals."""

    requests_per_token: int
    issued_count: int = 0
    refused_count: int = 0
    _uses_by_token: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def new_token(self) -> dict[str, str]:
        """Return a token so close to its end that boto3 renews it before the next request."""
        with self._lock:
            self.issued_count += 1
            expiry = datetime.now(UTC) + timedelta(minutes=9)
            return {
                "access_key": f"KEY{self.issued_count}",
                "secret_key": "not-a-secret",
                "token": f"token-{self.issued_count}",
                "expiry_time": expiry.isoformat(),
            }

    def decide(self, request: WireRequest) -> Treatment:
        """Carry out the request, or refuse it with S3's answer to an expired token."""
        token = request.headers["X-Amz-Security-Token"]
        with self._lock:
            self._uses_by_token[token] = self._uses_by_token.get(token, 0) + 1
            if self._uses_by_token[token] <= self.requests_per_token:
                return CARRIED_OUT
            self.refused_count += 1
        return Treatment(carried_out=False, instead=(400, "ExpiredToken"))


@pytest.fixture
def bucket(s3: S3Server) -> str:
    name = s3.new_bucket("credentials")
    return f"s3://{name}"


def case_in(bucket: str, folder: Path) -> Case:
    return Case(bucket, folder, part_size=10_000, source=directory("2-clicks"))


@pytest.mark.slow
def test_run_with_renewed_credentials_completes(
    bucket: str, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More than thirty requests may be sent with the same credentials at once.
    account, case = Account(requests_per_token=60), case_in(bucket, tmp_path)
    target = case.target()
    credentials = RefreshableCredentials.create_from_metadata(account.new_token(), account.new_token, "test")
    with wire_to(s3) as wire, serve_credentials(credentials) as access, monkeypatch.context() as patch:
        wire.decide = account.decide
        for name in KEYS:
            patch.delenv(name, raising=False)
        for name, value in {**access, "AWS_ENDPOINT_URL": wire.endpoint}.items():
            patch.setenv(name, value)
        case.succeed(target)
    assert account.issued_count > 2
    assert account.refused_count == 0
    assert_right(target, case.source)


@pytest.mark.parametrize("requests_per_token", [*map(slow, (1, 20, 40, 60, 80))])
def test_run_with_expired_credentials_says_so_and_resumes_with_new_ones(
    requests_per_token: int, bucket: str, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, case = Account(requests_per_token), case_in(bucket, tmp_path)
    target, faults = case.target(), case.faults()
    with wire_to(s3) as wire, monkeypatch.context() as patch:
        wire.decide = account.decide
        patch.setenv("AWS_ENDPOINT_URL", wire.endpoint)
        patch.setenv("AWS_SESSION_TOKEN", "first")
        assert case.run(target, faults) == 2, warm.output(faults)
        assert "the credentials have expired" in warm.output(faults)
        account.requests_per_token = 10_000
        patch.setenv("AWS_SESSION_TOKEN", "second")
        assert S3Store(client_for()).stat(join(target, "_metadata")) is None
        case.succeed(target)
    assert_right(target, case.source)
