"""A disturbed copy within S3 is repeated, or ends with a `StoreError`, after which the whole task can be repeated.

S3 begins to answer a copy before it is done, so that an error may come with status 200.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from rescale.storage.contract import Span
from rescale.storage.s3.s3_store import S3Store
from rescale.text.errors import StoreError
from support.s3 import S3Server, unprotected_store
from support.slow import slow
from support.wire import CARRIED_OUT, Treatment, WireRequest, wire_to

CONTENT = bytes(range(256)) * 40
DISTURBANCES = {
    "an error in 200, not copied": Treatment(carried_out=False, instead=(200, "InternalError")),
    "an error in 200, copied": Treatment(instead=(200, "InternalError")),
    "slow down in 200": Treatment(carried_out=False, instead=(200, "SlowDown")),
    "500, not copied": Treatment(carried_out=False, instead=(500, "InternalError")),
    "500, copied": Treatment(instead=(500, "InternalError")),
    "503": Treatment(carried_out=False, instead=(503, "SlowDown")),
    "reset, not copied": Treatment(carried_out=False, reset=True),
    "reset, copied": Treatment(reset=True),
    "an answer that breaks off": Treatment(cut=True),
}


@dataclass
class DisturbedStore:
    """A store behind a proxy, which treats the first `disturbances_left` copy requests as `treatment` says."""

    store: S3Store
    home: str
    treatment: Treatment = CARRIED_OUT
    disturbances_left: int = 0

    def decide(self, request: WireRequest) -> Treatment:
        if "x-amz-copy-source" not in request.headers or not self.disturbances_left:
            return CARRIED_OUT
        self.disturbances_left -= 1
        return self.treatment

    @property
    def source(self) -> Span:
        uri = f"{self.home}/source"
        return Span(uri, 0, len(CONTENT), self.store.stat(uri))


@pytest.fixture
def disturbed_store(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[DisturbedStore]:
    bucket = s3.new_bucket("disturbed")
    home = f"s3://{bucket}"
    s3.declare(f"{home}/target")
    unprotected_store(home).put(f"{home}/source", CONTENT)
    with wire_to(s3) as wire:
        monkeypatch.setenv("AWS_ENDPOINT_URL", wire.endpoint)
        monkeypatch.setattr("time.sleep", lambda _: None)
        store_behind_proxy = DisturbedStore(S3Store(), home)
        wire.decide = store_behind_proxy.decide
        yield store_behind_proxy


def copy_whole(disturbed_store: DisturbedStore, uri: str) -> None:
    disturbed_store.store.copy(uri, disturbed_store.source)


def copy_as_part(disturbed_store: DisturbedStore, uri: str) -> None:
    store = disturbed_store.store
    upload_id = store.begin_parts(uri, "")
    receipt = store.copy_part(uri, upload_id, 1, 0, disturbed_store.source)
    store.complete_parts(uri, upload_id, [receipt], len(CONTENT))


QUICK_DISTURBANCES = ("an error in 200, not copied", "an error in 200, copied", "reset, copied")
EVERY_DISTURBANCE = pytest.mark.parametrize(
    "disturbance", [*QUICK_DISTURBANCES, *(slow(name) for name in DISTURBANCES if name not in QUICK_DISTURBANCES)]
)
COPIES = pytest.mark.parametrize("copy", [copy_whole, copy_as_part])
Copy = Callable[[DisturbedStore, str], None]


@COPIES
@EVERY_DISTURBANCE
def test_disturbed_copy_is_repeated(disturbance: str, copy: Copy, disturbed_store: DisturbedStore) -> None:
    disturbed_store.treatment, disturbed_store.disturbances_left = DISTURBANCES[disturbance], 1
    copy(disturbed_store, uri := f"{disturbed_store.home}/target/file")
    assert disturbed_store.disturbances_left == 0
    assert disturbed_store.store.read_all(uri, 1 << 20)[0] == CONTENT


@COPIES
@EVERY_DISTURBANCE
def test_copy_that_stays_disturbed_is_a_store_error(
    disturbance: str, copy: Copy, disturbed_store: DisturbedStore
) -> None:
    """The store still copies after the disturbance: it is not marked as one that refuses copies."""
    disturbed_store.treatment, disturbed_store.disturbances_left = DISTURBANCES[disturbance], 100
    uri = f"{disturbed_store.home}/target/file"
    with pytest.raises(StoreError):
        copy(disturbed_store, uri)
    disturbed_store.disturbances_left = 0
    copy(disturbed_store, uri)
    assert disturbed_store.store.read_all(uri, 1 << 20)[0] == CONTENT
