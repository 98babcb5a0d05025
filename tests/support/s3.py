"""S3 servers for a test run, each in a process, on a free port of this machine: moto, and versitygw, which is strict.

versitygw checks all conditions, including those of copies, and computes checksums of objects itself. A policy in front
of moto (`bucket_policy`; `policed` puts it before versitygw) allows a run to write only where a plan says. Tests that
prepare or damage files are other clients for the policy.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config

from rescale.demo.processes import free_port
from rescale.storage.files import owned
from rescale.storage.locations import is_s3, join
from rescale.storage.s3.s3_requests import REQUESTS
from rescale.storage.s3.s3_store import S3Store
from rescale.storage.store import Store, open_store
from support.bucket_policy import PLACES, SOMEBODY_ELSE
from support.needs import need

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_START_SECONDS = 300


@dataclass(frozen=True)
class S3Server:
    """A running S3 server: its address, its keys, and the environment of processes that use it."""

    endpoint: str
    refusals: Path | None = None
    """File with the requests that the policy refused, one per line."""
    hosted_endpoint: str = ""
    """Second address of the server, where it refuses every request with a bucket in its path (`hosted_buckets`)."""
    access_key: str = "test"
    secret_key: str = "not-a-secret"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    @property
    def flink_options(self) -> dict[str, str]:
        """Options of Flink's S3 file system for this server."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.path.style.access": "true",
            "s3.access-key": self.environment["AWS_ACCESS_KEY_ID"],
            "s3.secret-key": self.environment["AWS_SECRET_ACCESS_KEY"],
            "s3.endpoint.region": self.environment["AWS_DEFAULT_REGION"],
        }

    def client(self) -> S3Client:
        """Return a client that is not subject to the policy."""
        client: S3Client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.environment["AWS_SECRET_ACCESS_KEY"],
            region_name=self.environment["AWS_DEFAULT_REGION"],
            config=Config(
                user_agent_extra=SOMEBODY_ELSE,
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
        return client

    def create_bucket(self, bucket: str) -> None:
        self.client().create_bucket(Bucket=bucket)

    def new_bucket(self, purpose: str) -> str:
        """Create a bucket for one test, and return its name."""
        self.create_bucket(bucket := f"{purpose}-{uuid.uuid4().hex[:12]}")
        return bucket

    def declare(self, uri: str) -> None:
        """Allow runs, and tested parts of runs, to write to a place that no plan names."""
        request = urllib.request.Request(f"{self.endpoint}{PLACES}", uri.encode(), method="PUT")
        urllib.request.urlopen(request, timeout=_START_SECONDS).close()

    def take_refused(self) -> list[str]:
        """Return the requests that the policy has refused since the last call."""
        if self.refusals is None or not self.refusals.exists():
            return []
        lines = self.refusals.read_text().splitlines()
        self.refusals.unlink()
        return lines


def new_home(place: str, request: pytest.FixtureRequest, folder: Path, *declared: str) -> str:
    """Return `folder` for "local", else a directory in a new bucket of the server that the fixture `place` returns.

    `declared` are the directories in it to which tested parts of runs may write (`S3Server.declare`).
    """
    if place == "local":
        return str(folder)
    server: S3Server = request.getfixturevalue(place)
    home = f"s3://{server.new_bucket('home')}/home"
    for directory in declared:
        server.declare(join(home, directory))
    return home


def unprotected_store(uri: str) -> Store:
    """Return the store of a place as in another process, where no sources are protected."""
    if not is_s3(uri):
        owned.forget()
        return open_store(uri)
    return S3Store(S3Server(os.environ["AWS_ENDPOINT_URL"]).client())


def put_files(folder: Path, uri: str) -> str:
    """Put all files below a folder to `uri`, not as a run but as another client; return the URI."""
    store = unprotected_store(uri)
    for path in folder.rglob("*"):
        if path.is_file():
            name = join(uri, path.relative_to(folder).as_posix())
            store.put(name, path.read_bytes())
    return uri


def requests_of(look: Callable[[], object]) -> Counter[str]:
    """Return the number of requests of the read-only function `look`, by operation.

    `look` is repeated if a request was repeated, as happens with a busy server.
    """
    while True:
        before, repeated = REQUESTS.by_operation, REQUESTS.repeat_count
        look()
        if REQUESTS.repeat_count == repeated:
            return REQUESTS.by_operation - before


@contextmanager
def closed_port() -> Iterator[int]:
    """Reserve a port of this machine, on which no process can listen until the block ends."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield int(kept.getsockname()[1])


@contextmanager
def s3_server(*, hosted: bool = False) -> Iterator[S3Server]:
    """Run a server during the block; if `hosted`, it also has a `hosted_endpoint`."""
    port, ports = free_port(), [str(free_port())] if hosted else []
    with TemporaryDirectory() as folder:
        hosted_endpoint = f"http://store.localhost:{ports[0]}" if hosted else ""
        server = S3Server(f"http://127.0.0.1:{port}", Path(folder, "refused"), hosted_endpoint)
        process = subprocess.Popen(
            [sys.executable, "-m", "support.policed_moto", str(port), str(server.refusals), *ports],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with _running(process, server):
            yield server


@contextmanager
def strict_s3_server(folder: Path, versions: Path | None = None, keys: str = "") -> Iterator[S3Server]:
    """Run versitygw during the block, with its objects in an empty folder, and old versions in `versions` if given.

    versitygw accepts only the access key and the secret key of moto, each with the prefix `keys`.
    """
    need("versitygw", "it is another S3 server")
    port = free_port()
    server = S3Server(f"http://127.0.0.1:{port}", access_key=f"{keys}test", secret_key=f"{keys}not-a-secret")
    settings = server.environment
    kept = []
    if versions is not None:
        versions.mkdir()
        kept = ["--versioning-dir", str(versions)]
    process = subprocess.Popen(
        [
            "versitygw",
            "--keep-alive",
            "--region",
            settings["AWS_DEFAULT_REGION"],
            "--port",
            f"127.0.0.1:{port}",
            "posix",
            *kept,
            str(folder),
        ],
        env={
            **os.environ,
            "ROOT_ACCESS_KEY": settings["AWS_ACCESS_KEY_ID"],
            "ROOT_SECRET_KEY": settings["AWS_SECRET_ACCESS_KEY"],
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with _running(process, server):
        yield server


@contextmanager
def _running(process: subprocess.Popen[bytes], server: S3Server) -> Iterator[None]:
    """Wait until the server answers; end the process with the block."""
    try:
        _wait_until_it_answers(process, server.endpoint)
        yield
    finally:
        process.terminate()
        process.wait()


def _wait_until_it_answers(process: subprocess.Popen[bytes], endpoint: str) -> None:
    """Wait for any answer, even a refusal, because the request is not signed."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        assert process.poll() is None, f"the S3 server for {endpoint} ended with exit code {process.returncode}"
        try:
            with urllib.request.urlopen(endpoint, timeout=_START_SECONDS):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
