"""One contract, held by local files and by a real S3 server."""

from __future__ import annotations

import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rescale.errors import RequestError, SnapshotError, StoreError
from rescale.storage.locations import join
from rescale.storage.store import Store, open_store
from support.s3 import S3Server


@pytest.fixture(params=["local", "s3"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty directory."""
    if request.param == "local":
        return str(tmp_path / "home")
    server: S3Server = request.getfixturevalue("s3")
    bucket = f"store-{uuid.uuid4().hex[:12]}"
    server.create_bucket(bucket)
    return f"s3://{bucket}/home"


@pytest.fixture
def store(home: str) -> Store:
    return open_store(home)


def test_what_was_put_is_read(store: Store, home: str) -> None:
    uri = join(home, "a/b")
    assert store.stat(uri) is None
    store.put(uri, b"0123456789")
    pin = store.stat(uri)
    assert pin is not None
    assert pin.size == 10
    assert store.read(uri, 3, 4, pin) == b"3456"
    assert store.read(uri, 3, 0, pin) == b""
    assert store.read_all(uri, 10) == (b"0123456789", pin)
    assert [entry.uri for entry in store.list(home)] == [uri]
    assert store.modified(uri) is not None


def test_a_file_that_changed_is_not_read(store: Store, home: str) -> None:
    uri = join(home, "a")
    store.put(uri, b"before")
    pin = store.stat(uri)
    store.put(uri, b"after!")
    if pin and pin.mtime_ns:
        os.utime(uri, ns=(0, pin.mtime_ns + 1))
    with pytest.raises(SnapshotError, match="has changed"):
        store.read(uri, 0, 6, pin)
    with pytest.raises(SnapshotError, match="has changed"):
        store.read_all(uri, 6, pin)


def test_a_file_that_is_gone_or_short_is_an_error(store: Store, home: str) -> None:
    with pytest.raises(SnapshotError, match="gone"):
        store.read(join(home, "none"), 0, 1)
    store.put(join(home, "a"), b"123")
    with pytest.raises(SnapshotError, match="too early"):
        store.read(join(home, "a"), 1, 3)
    with pytest.raises(SnapshotError, match="larger"):
        store.read_all(join(home, "a"), 2)


def test_put_if_absent_has_one_winner(store: Store, home: str) -> None:
    uri = join(home, "claim")
    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(lambda i: store.put_if_absent(uri, b"writer %d" % i), range(16)))
    assert won.count(True) == 1
    winner = b"writer %d" % won.index(True)
    assert store.read_all(uri, 100)[0] == winner
    assert store.put_if_absent(uri, winner), "a lost answer, tried again"
    assert not store.put_if_absent(uri, b"another")
    assert store.honours_conditions(uri, winner)


def test_parts_in_any_order_make_a_file(store: Store, home: str) -> None:
    uri, size = join(home, "large"), 5 * 1024 * 1024
    parts = [bytes([i]) * size for i in range(2)] + [b"end"]
    token = store.begin_parts(uri, join(f"{home}.beside", "staging"))
    receipts = {i: store.put_part(uri, token, i + 1, i * size, parts[i]) for i in (2, 0, 1)}
    assert store.list(home) == [], "nothing is visible before it is complete"
    ordered = [receipts[i] for i in range(3)]
    store.complete_parts(uri, token, ordered, 2 * size + 3)
    store.complete_parts(uri, token, ordered, 2 * size + 3)
    assert store.read(uri, size - 1, 2) == b"\0\1"
    assert store.read(uri, 2 * size, 3) == b"end"
    assert store.list(f"{home}.beside") == []


def test_abandoned_parts_leave_no_file(store: Store, home: str) -> None:
    uri = join(home, "large")
    token = store.begin_parts(uri, join(f"{home}.beside", "staging"))
    store.put_part(uri, token, 1, 0, b"x")
    store.abort_parts(home)
    store.delete([entry.uri for entry in store.list(f"{home}.beside")])
    with pytest.raises(StoreError):
        store.put_part(uri, token, 1, 0, b"x")
    assert store.list(home) == []


def test_delete_takes_files_and_empty_directories(store: Store, home: str) -> None:
    uris = [join(home, f"x/{i}") for i in range(3)]
    for uri in uris:
        store.put(uri, b"")
    store.delete([*uris[:2], join(home, "none")])
    assert [entry.uri for entry in store.list(home)] == uris[2:]
    store.delete(uris)
    assert store.list(home) == []
    assert not Path(home, "x").exists()


def test_a_missing_bucket_is_the_users_to_set_right(s3: S3Server) -> None:
    assert s3
    with pytest.raises(RequestError, match="no such bucket"):
        open_store("s3://nowhere/x").put("s3://no-such-bucket/x", b"")
