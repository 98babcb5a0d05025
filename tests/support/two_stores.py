"""Two S3 stores with different keys, and the AWS profiles of both."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rescale.storage.s3.s3_store import S3Store
from rescale.storage.sides import TARGETS_VARIABLE, StoreSide
from rescale.storage.store import Store
from support.s3 import S3Server, strict_s3_server
from support.snapshots import directory

SOURCE, TARGET = "premises", "cloud"
"""Names of the profiles."""

BUCKET = "flink-of-two-stores"
"""A bucket that both stores have."""


@dataclass(frozen=True)
class TwoStores:
    """The servers of the source and the target."""

    source: S3Server
    target: S3Server
    config: Path

    @property
    def environment(self) -> dict[str, str]:
        """Environment of processes that have access to S3 only by profiles."""
        variables = {
            name: value for name, value in os.environ.items() if "AWS_" not in name and name != TARGETS_VARIABLE
        }
        return {**variables, "AWS_CONFIG_FILE": str(self.config), "AWS_EC2_METADATA_DISABLED": "true"}

    @property
    def variables(self) -> dict[str, str]:
        """Variables that configure the target's store and, with a prefix, the source's."""
        prefix = StoreSide.SOURCE.prefix
        return {
            **self.target.environment,
            **{prefix + name: value for name, value in self.source.environment.items()},
        }

    def put_source(self, name: str, uri: str) -> str:
        """Put a committed snapshot into the source's store; return its URI."""
        return self.put_folder(Path(directory(name)), uri)

    def put_folder(self, folder: Path, uri: str) -> str:
        """Put all files below a folder into the source's store; return the URI."""
        store = self.at_source()
        for path in folder.rglob("*"):
            if path.is_file():
                store.put(f"{uri}/{path.relative_to(folder).as_posix()}", path.read_bytes())
        return uri

    def declare_target(self, uri: str) -> None:
        """Let moto's policy allow writes in a target that no plan names, and beside it."""
        if self.target.refusals is not None:
            for place in (uri, f"{uri}.rescale"):
                self.target.declare(place)

    def at_target(self) -> Store:
        return S3Store(self.target.client())

    def at_source(self) -> Store:
        return S3Store(self.source.client())


@contextmanager
def two_stores(moto: S3Server, folder: Path, *, from_moto: bool) -> Iterator[TwoStores]:
    """Yield versitygw and moto, as source and target or the other way round; each has an empty bucket `BUCKET`."""
    (objects := folder / "objects").mkdir()
    with strict_s3_server(objects, keys="own-") as versity:
        source, target = (moto, versity) if from_moto else (versity, moto)
        for server in (source, target):
            server.create_bucket(BUCKET)
        config = folder / "config"
        config.write_text(_profile(SOURCE, source) + _profile(TARGET, target))
        try:
            yield TwoStores(source, target, config)
        finally:
            _empty(moto)


def _profile(name: str, server: S3Server) -> str:
    settings = server.environment
    return (
        f"[profile {name}]\nendpoint_url = {server.endpoint}\nregion = {settings['AWS_DEFAULT_REGION']}\n"
        f"aws_access_key_id = {settings['AWS_ACCESS_KEY_ID']}\n"
        f"aws_secret_access_key = {settings['AWS_SECRET_ACCESS_KEY']}\n"
    )


def _empty(server: S3Server) -> None:
    client = server.client()
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for entry in page.get("Contents", ()):
            client.delete_object(Bucket=BUCKET, Key=entry["Key"])
    client.delete_bucket(Bucket=BUCKET)
