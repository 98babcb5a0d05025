"""Runs, discards and publications work under a strict bucket policy.

They read the source, write into the target and beside it, and delete only objects that they have put there themselves.
The server refuses everything else in all tests (`support.bucket_policy`). The tests here show what it refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rescale.execution.job import run_step_of_job
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.runstate.documents import store_plan
from rescale.runstate.places import places_of
from rescale.runstate.removal import discard
from rescale.storage.contract import CopyRefused, Span
from rescale.storage.s3.s3_requests import REQUESTS
from rescale.storage.s3.s3_store import S3Store
from rescale.storage.store import Store, open_store
from rescale.text.errors import RequestError
from support import snapshots
from support.pipeline import execute_without_spark, move, plan_rescale
from support.s3 import S3Server, put_files, unprotected_store
from support.slow import slow


@pytest.fixture(params=["s3", slow("uses_strict_s3")])
def server(request: pytest.FixtureRequest) -> S3Server:
    chosen: S3Server = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture
def home(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a bucket with a source, and with objects of others whose names are similar to those of the target."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    bucket = server.new_bucket("policy")
    home = f"s3://{bucket}"
    put_files(Path(snapshots.directory("2-finished")), f"{home}/source")
    for name in ("target-2/file", "target.rescale/mine", "target.rescale2/claim", "target2"):
        unprotected_store(home).put(f"{home}/{name}", b"somebody else's")
    return home


def objects_of_others(home: str) -> dict[str, bytes]:
    """Return the content of all objects that are neither in the target nor beside it, and of `target.rescale/mine`."""
    store = open_store(home)
    uris = [entry.uri for entry in store.list(home)]
    foreign_uris = [uri for uri in uris if not uri.startswith((f"{home}/target/", f"{home}/target.rescale/"))]
    return {uri: store.read_all(uri, 1 << 20)[0] for uri in [*foreign_uris, f"{home}/target.rescale/mine"]}


def test_run_discard_and_publication_send_no_request_that_the_policy_refuses(home: str, server: S3Server) -> None:
    before, requests_before = objects_of_others(home), REQUESTS.by_operation
    plan = plan_rescale(f"{home}/source", f"{home}/target", ["3"])
    move(plan, InProcessTasks())
    store = open_store(plan.target)
    store.begin_parts(f"{plan.target}/{'0' * 32}-keyed-0-12345678", "")  # as a killed task leaves it
    discard(plan.target)
    assert store.list(plan.target) == []
    assert {"DeleteObject", "AbortMultipartUpload"} <= set(REQUESTS.by_operation - requests_before)
    execute_without_spark(plan)
    assert server.take_refused() == []
    assert store.stat(places_of(plan).metadata) is not None
    assert objects_of_others(home) == before


def test_step_does_not_delete_a_result_that_does_not_exist(home: str, server: S3Server) -> None:
    plan = plan_rescale(f"{home}/source", f"{home}/target", ["3"])
    store_plan(plan)
    for _ in range(2):
        run_step_of_job("keyed", result := places_of(plan).result("keyed"), dict)
    assert server.take_refused() == []
    assert open_store(result).stat(result) is not None


def _whole_span(store: Store, uri: str) -> Span:
    pin = store.stat(uri)
    assert pin is not None
    return Span(uri, 0, pin.size, pin)


FORBIDDEN_REQUESTS: dict[str, Callable[[Store, str], object]] = {
    "PUT source/_metadata": lambda store, home: store.put(f"{home}/source/_metadata", b""),
    "PUT source/new": lambda store, home: store.put_if_absent(f"{home}/source/new", b""),
    "DELETE source/_metadata": lambda store, home: store.delete([f"{home}/source/_metadata"]),
    "PUT target.rescale/mine": lambda store, home: store.put(f"{home}/target.rescale/mine", b""),
    "DELETE target.rescale/mine": lambda store, home: store.delete([f"{home}/target.rescale/mine"]),
    "PUT target.rescale2/claim": lambda store, home: store.put(f"{home}/target.rescale2/claim", b""),
    "PUT target2": lambda store, home: store.put(f"{home}/target2", b""),
    "PUT target-2/copy": lambda store, home: store.copy(
        f"{home}/target-2/copy", _whole_span(store, f"{home}/source/_metadata")
    ),
    "POST target-2/file?uploads": lambda store, home: store.begin_parts(f"{home}/target-2/file", ""),
}


def test_policy_refuses_each_forbidden_request(home: str, server: S3Server) -> None:
    """If the policy let these requests pass, the other tests would prove nothing."""
    store_plan(plan_rescale(f"{home}/source", f"{home}/target", ["3"]))
    before = objects_of_others(home)
    for request_line, send_forbidden in FORBIDDEN_REQUESTS.items():
        with pytest.raises((RequestError, CopyRefused)):
            send_forbidden(S3Store(), home)  # a new one each time, because a store remembers that copies are refused
        method, place = request_line.split()
        assert server.take_refused() == [f"{method} {home.removeprefix('s3:/')}/{place}"], request_line
        assert objects_of_others(home) == before, request_line


def test_policy_refuses_a_plan_stored_beside_a_target_that_it_does_not_name(home: str, server: S3Server) -> None:
    plan = plan_rescale(f"{home}/source", f"{home}/target", ["3"])
    elsewhere = places_of(plan).plan.replace("/target.rescale/", "/target3.rescale/")
    store_plan(plan)
    document = open_store(home).read_all(places_of(plan).plan, 1 << 24)[0]
    with pytest.raises(RequestError):
        open_store(home).put(elsewhere, document)
    assert server.take_refused() == [f"PUT {elsewhere.removeprefix('s3:/')}"]
