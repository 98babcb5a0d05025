"""A run, a discard and a publication need no more than a bucket policy may leave them.

They read the source, write into the target and beside it, and delete only what they have put there themselves.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from rescale.errors import RequestError
from rescale.execution.loop import Loop
from rescale.execution.steps import validate_coverage
from rescale.storage.s3 import S3Store
from rescale.storage.s3_client import own_client
from rescale.storage.store import open_store
from rescale.target.places import places_of
from rescale.target.publication import publish
from rescale.target.removal import discard
from support import snapshots
from support.pipeline import move, plan_rescale
from support.s3 import S3Server

READS = ("GetObject", "HeadObject", "ListObjectsV2", "ListMultipartUploads")
PUTS = ("PutObject", "CompleteMultipartUpload", "CreateMultipartUpload", "UploadPart", "AbortMultipartUpload")
PUTS += ("CopyObject", "UploadPartCopy")  # which take the right to read there, too, and no more


@dataclass
class Policy:
    """Of a bucket: what `refused` names was asked for, and not done."""

    put: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def guard(self, store: S3Store) -> S3Store:
        store._client.meta.events.register("provide-client-params.s3", self._look)
        return store

    def _look(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        key = str(params.get("Key", params.get("Prefix", "")))
        self.requests.append(model.name)
        if self._allows(model.name, key):
            self.put |= {key} if model.name in PUTS else set()
            return
        self.refused.append(f"{model.name} {key}")
        answer: Any = {"Error": {"Code": "AccessDenied"}, "ResponseMetadata": {"HTTPStatusCode": 403}}
        raise ClientError(answer, model.name)

    def _allows(self, request: str, key: str) -> bool:
        if request in PUTS:
            return key.startswith(("target/", "target.rescale/"))
        return request in READS or (request == "DeleteObject" and key in self.put)


@pytest.fixture
def policy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Policy]:
    """For all that this process asks of S3."""
    found = Policy()
    store = found.guard(S3Store(own_client()))
    monkeypatch.setattr("rescale.storage.store._s3", lambda: store)
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    return found


@pytest.fixture
def home(s3: S3Server) -> str:
    """A bucket with a source in it, and what is somebody else's on all sides of the target."""
    s3.create_bucket(bucket := f"policy-{uuid.uuid4().hex[:12]}")
    store = S3Store()
    for path in Path(snapshots.directory("2-finished")).iterdir():
        store.put(f"s3://{bucket}/source/{path.name}", path.read_bytes())
    for name in ("target-2/file", "target.rescale/mine", "target.rescale2/claim", "target2"):
        store.put(f"s3://{bucket}/{name}", b"somebody else's")
    return f"s3://{bucket}"


def others(home: str) -> dict[str, bytes]:
    """All that was there before."""
    store = open_store(home)
    found = [entry.uri for entry in store.list(home)]
    theirs = [uri for uri in found if not uri.startswith((f"{home}/target/", f"{home}/target.rescale/"))]
    return {uri: store.read_all(uri, 1 << 20)[0] for uri in [*theirs, f"{home}/target.rescale/mine"]}


def test_more_is_not_asked_for(home: str, policy: Policy) -> None:
    before = others(home)
    plan = plan_rescale(f"{home}/source", f"{home}/target", ["3"])
    move(plan, Loop())
    store = open_store(plan.target)
    store.begin_parts(f"{plan.target}/state", "")  # as a killed task leaves it
    discard(plan.target)
    assert store.list(plan.target) == []
    assert {"DeleteObject", "AbortMultipartUpload"} <= set(policy.requests)
    move(plan, Loop())
    validate_coverage(plan, Loop())
    publish(plan)
    assert policy.refused == []
    assert store.stat(places_of(plan).metadata) is not None
    assert others(home) == before


def test_the_policy_refuses(home: str, policy: Policy) -> None:
    """Else the other test would show nothing."""
    store = open_store(home)
    for forbidden in (
        lambda: store.put(f"{home}/source/_metadata", b""),
        lambda: store.delete([f"{home}/source/_metadata"]),
        lambda: store.delete([f"{home}/target.rescale/mine"]),
        lambda: store.begin_parts(f"{home}/target-2/file", ""),
    ):
        with pytest.raises(RequestError):
            forbidden()
    assert len(policy.refused) == 4
