"""S3 servers for a test run, each in a process, on a free port of this machine: moto's, and versitygw, which is strict.

Versity's looks at all conditions, those of copies too, and computes checksums of objects itself.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import boto3

from support.needs import need


@dataclass(frozen=True)
class S3Server:
    """Where the server listens, and what a process must have in its environment to use it."""

    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "not-a-secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    @property
    def flink_options(self) -> dict[str, str]:
        """What Flink's S3 file system must be told to use it."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.path.style.access": "true",
            "s3.access-key": self.environment["AWS_ACCESS_KEY_ID"],
            "s3.secret-key": self.environment["AWS_SECRET_ACCESS_KEY"],
            "s3.endpoint.region": self.environment["AWS_DEFAULT_REGION"],
        }

    def create_bucket(self, bucket: str) -> None:
        client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id="test",
            aws_secret_access_key="not-a-secret",
            region_name="us-east-1",
        )
        client.create_bucket(Bucket=bucket)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A running server; it ends with the block."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    server = S3Server(f"http://127.0.0.1:{port}")
    try:
        _wait_until_it_answers(server.endpoint)
        yield server
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def strict_s3_server(folder: Path, versions: Path | None = None) -> Iterator[S3Server]:
    """The same of versitygw, with its objects in an empty folder; older versions of them are kept where that says."""
    need("versitygw", "it is another S3 server (go install github.com/versity/versitygw/cmd/versitygw@v1.8.0)")
    port = free_port()
    server = S3Server(f"http://127.0.0.1:{port}")
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
    try:
        _wait_until_it_answers(server.endpoint)
        yield server
    finally:
        process.terminate()
        process.wait(20)


def _wait_until_it_answers(endpoint: str) -> None:
    """Be it with a refusal: who asks is nobody."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(endpoint, timeout=5):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
