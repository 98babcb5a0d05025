"""An S3 server for the demo: moto in a separate process, in memory, on a free port of 127.0.0.1."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import boto3

from rescale.demo.processes import free_port, running, wait_until
from rescale.storage.locations import join, split_s3
from rescale.storage.store import open_store

SOURCE = "s3://savepoints/clicks"
TARGET_BUCKET = "s3://rescaled"

_ACCESS_KEY, _SECRET, _REGION = "demo", "demo-secret", "us-east-1"
_START_TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class S3Server:
    """An S3 server, by the URL of its endpoint."""

    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": _ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": _REGION,
        }

    @property
    def airflow_connection_json(self) -> str:
        extra = {"endpoint_url": self.endpoint, "region_name": _REGION}
        return json.dumps({"conn_type": "aws", "login": _ACCESS_KEY, "password": _SECRET, "extra": extra})

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.endpoint}/moto-api/", timeout=5):
                return True
        except OSError:
            return False


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """Run a server during the block, with its log in `folder`; this process uses it, too."""
    port, log = free_port(), folder / "s3.log"
    server = S3Server(f"http://127.0.0.1:{port}")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(server.environment)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with running(command, os.environ, log) as process:
        wait_until(server.answers, process, log, "the S3 server", _START_TIMEOUT_SECONDS)
        yield server


def upload_savepoint() -> None:
    """Create the buckets and upload the savepoint that comes with the package to `SOURCE`."""
    client = boto3.client("s3")
    for uri in (SOURCE, TARGET_BUCKET):
        client.create_bucket(Bucket=split_s3(uri)[0])
    for file in files("rescale.demo").joinpath("savepoint").iterdir():
        open_store(SOURCE).put(join(SOURCE, file.name), file.read_bytes())
