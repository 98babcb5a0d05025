"""The contract of stores, for local files and for real S3 servers."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rescale.storage.contract import Span
from rescale.storage.locations import join
from rescale.storage.store import Store, exists, open_store
from rescale.text.errors import RequestError, SnapshotError, StoreError
from support.s3 import S3Server
from support.slow import gate


@pytest.fixture(params=["local", "s3", gate("uses_strict_s3")])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return str(tmp_path / "home")
    server: S3Server = request.getfixturevalue(request.param)
    bucket = server.new_bucket("store")
    server.declare(f"s3://{bucket}")
    return f"s3://{bucket}/home"


@pytest.fixture
def store(home: str) -> Store:
    return open_store(home)


def test_put_file_is_read_back(store: Store, home: str) -> None:
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
    assert store.modification_time(uri) is not None


def test_read_of_a_changed_file_is_refused(store: Store, home: str) -> None:
    uri = join(home, "a")
    store.put(uri, b"before")
    pin = store.stat(uri)
    store.put(uri, b"after!")
    if pin and pin.mtime_ns:
        os.utime(uri, ns=(0, pin.mtime_ns + 1))
    with pytest.raises(SnapshotError, match="has changed") as caught:
        store.read(uri, 0, 6, pin)
    assert all(
        (description or "").startswith("6 bytes, ") for description in (caught.value.expected, caught.value.found)
    )
    assert caught.value.expected != caught.value.found
    store.put(uri, b"cut")
    with pytest.raises(SnapshotError, match="has changed"):
        store.read(uri, 4, 2, pin)
    store.delete([uri])
    with pytest.raises(SnapshotError, match="gone"):
        store.read(uri, 0, 6, pin)


def test_read_of_a_missing_or_short_file_is_refused(store: Store, home: str) -> None:
    with pytest.raises(SnapshotError, match="gone"):
        store.read(join(home, "none"), 0, 1)
    store.put(join(home, "a"), b"123")
    for start in (1, 3, 9):
        with pytest.raises(SnapshotError, match="too early") as caught:
            store.read(join(home, "a"), start, 3)
        assert (caught.value.path, caught.value.offset) == (join(home, "a"), start)
    with pytest.raises(SnapshotError, match="gone"):
        store.read_all(join(home, "none"), 1)
    with pytest.raises(SnapshotError, match="too large"):
        store.read_all(join(home, "a"), 2)


def test_put_if_absent_has_one_winner(store: Store, home: str) -> None:
    uri = join(home, "claim")
    with ThreadPoolExecutor(16) as pool:
        wins = list(pool.map(lambda i: store.put_if_absent(uri, b"writer %d" % i), range(16)))
    assert wins.count(True) == 1
    winner = b"writer %d" % wins.index(True)
    assert store.read_all(uri, 100)[0] == winner
    assert store.put_if_absent(uri, winner), "a put that was repeated after a lost answer failed"
    assert not store.put_if_absent(uri, b"another")
    assert store.honours_conditions(uri, winner)


def test_parts_put_in_any_order_make_a_file(store: Store, home: str) -> None:
    uri, size = join(home, "large"), 5 * 1024 * 1024
    parts = [bytes([i]) * size for i in range(2)] + [b"end"]
    upload_id = store.begin_parts(uri, join(f"{home}.beside", "staging"))
    receipts = {i: store.put_part(uri, upload_id, i + 1, i * size, parts[i]) for i in (2, 0, 1)}
    assert store.list(home) == [], "nothing is visible before it is complete"
    ordered_receipts = [receipts[i] for i in range(3)]
    store.complete_parts(uri, upload_id, ordered_receipts, 2 * size + 3)
    store.complete_parts(uri, upload_id, ordered_receipts, 2 * size + 3)
    assert store.read(uri, size - 1, 2) == b"\0\1"
    assert store.read(uri, 2 * size, 3) == b"end"
    assert store.list(f"{home}.beside") == []


def test_writing_the_same_bytes_again_keeps_the_pin(store: Store, home: str) -> None:
    uri, staging, size = join(home, "a"), join(f"{home}.beside", "staging"), 5 * 1024 * 1024
    parts = [b"a" * size, b"b"]

    def write_in_parts(last: bytes) -> None:
        upload_id = store.begin_parts(uri, staging)
        receipts = [store.put_part(uri, upload_id, i + 1, i * size, part) for i, part in enumerate([parts[0], last])]
        store.complete_parts(uri, upload_id, receipts, size + len(last))

    store.put(uri, b"same")
    pin = store.stat(uri)
    store.put(uri, b"same")
    assert store.stat(uri) == pin
    write_in_parts(parts[1])
    pin = store.stat(uri)
    write_in_parts(parts[1])
    assert store.stat(uri) == pin
    assert [entry.pin for entry in store.list(home)] == [pin]
    write_in_parts(b"c")
    assert store.read(uri, size - 1, 2) == b"ac"
    assert store.list(f"{home}.beside") == []


def test_store_copies_whole_files_and_ranges(store: Store, home: str) -> None:
    """A whole file is copied, and so are ranges of it, between bytes that are put.

    A repeated copy of the whole file keeps its pin.
    """
    uri, staging, size = join(home, "source"), join(f"{home}.beside", "staging"), 5 * 1024 * 1024
    data = bytes(range(256)) * (2 * size // 256) + b"end"
    store.put(uri, data)
    pin = store.stat(uri)
    assert pin is not None
    whole_uri, cut_uri = join(home, "whole"), join(home, "cut")
    store.copy(whole_uri, Span(uri, 0, len(data), pin))
    assert store.read_all(whole_uri, len(data))[0] == data
    whole_pin = store.stat(whole_uri)
    store.copy(whole_uri, Span(uri, 0, len(data), pin))
    assert store.stat(whole_uri) == whole_pin
    cut_pins = []
    for _ in range(2):
        upload_id = store.begin_parts(cut_uri, staging)
        receipts = [
            store.copy_part(cut_uri, upload_id, 1, 0, Span(uri, 7, size + 1, pin)),
            store.put_part(cut_uri, upload_id, 2, size + 1, b"x" * size),
            store.copy_part(cut_uri, upload_id, 3, 2 * size + 1, Span(uri, size, size + 3, pin)),
        ]
        store.complete_parts(cut_uri, upload_id, receipts, 3 * size + 4)
        assert store.read_all(cut_uri, 4 * size)[0] == data[7 : size + 8] + b"x" * size + data[size:]
        cut_pins.append(store.stat(cut_uri))
    assert cut_pins[0] == cut_pins[1]


@pytest.mark.parametrize("home", ["local", gate("uses_strict_s3")], indirect=True)
def test_copy_of_a_changed_file_is_refused(store: Store, home: str) -> None:
    uri, data = join(home, "source"), b"before" * (1 << 20)
    store.put(uri, data)
    pin = store.stat(uri)
    assert pin is not None
    store.put(uri, data.upper())
    span, target = Span(uri, 0, len(data), pin), join(home, "target")
    upload_id = store.begin_parts(target, join(f"{home}.beside", "staging"))
    for copy in (lambda: store.copy(target, span), lambda: store.copy_part(target, upload_id, 1, 0, span)):
        with pytest.raises(SnapshotError, match="has changed"):
            copy()
    store.delete([uri])
    for copy in (lambda: store.copy(target, span), lambda: store.copy_part(target, upload_id, 1, 0, span)):
        with pytest.raises(SnapshotError, match="gone"):
            copy()
    store.abort_parts(target)
    assert store.stat(target) is None


def test_aborted_parts_leave_no_file(store: Store, home: str) -> None:
    uri = join(home, "large")
    upload_id = store.begin_parts(uri, join(f"{home}.beside", "staging"))
    store.put_part(uri, upload_id, 1, 0, b"x")
    other_uri = join(f"{home}.else", "large")
    other_upload_id = store.begin_parts(other_uri, join(f"{home}.else.beside", "staging"))
    store.abort_parts(home)
    store.delete([entry.uri for entry in store.list(f"{home}.beside")])
    with pytest.raises(StoreError):
        store.put_part(uri, upload_id, 1, 0, b"x")
    assert store.list(home) == []
    store.complete_parts(other_uri, other_upload_id, [store.put_part(other_uri, other_upload_id, 1, 0, b"y")], 1)
    assert store.read_all(other_uri, 1)[0] == b"y", "an upload elsewhere is kept"


def test_part_put_after_its_upload_is_complete_is_refused(store: Store, home: str) -> None:
    uri, other_uri, staging = join(home, "large"), join(home, "other"), join(f"{home}.beside", "staging")
    upload_id, other_upload_id = store.begin_parts(uri, staging), store.begin_parts(other_uri, staging)
    store.complete_parts(uri, upload_id, [store.put_part(uri, upload_id, 1, 0, b"done")], 4)
    with pytest.raises(StoreError):
        store.put_part(uri, upload_id, 1, 0, b"late")
    assert store.read_all(uri, 4)[0] == b"done"
    store.complete_parts(other_uri, other_upload_id, [store.put_part(other_uri, other_upload_id, 1, 0, b"other")], 5)
    assert store.list(f"{home}.beside") == []


def test_many_files_are_staged_at_once_in_one_directory(store: Store, home: str) -> None:
    def write(i: int) -> None:
        uri = join(home, f"{i}")
        upload_id = store.begin_parts(uri, join(f"{home}.beside", "staging"))
        store.complete_parts(uri, upload_id, [store.put_part(uri, upload_id, 1, 0, b"%03d" % i)], 3)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(100)))
    assert [store.read_all(entry.uri, 3)[0] for entry in store.list(home)] == [
        b"%03d" % i for i in sorted(range(100), key=str)
    ]


@pytest.mark.parametrize("home", ["local", "s3"], indirect=True)  # not versitygw: it keeps objects as files
@pytest.mark.parametrize("impossible_name", ["a\0b", "a\ud800", "a" * 300, "file/below"])
def test_impossible_file_name_counts_as_absent(store: Store, home: str, impossible_name: str) -> None:
    store.put(join(home, "file"), b"")
    uri = join(home, impossible_name)
    assert store.stat(uri) is None
    with pytest.raises(SnapshotError, match="gone"):
        store.read(uri, 0, 1)


def test_directories_and_missing_files_do_not_exist(store: Store, home: str) -> None:
    store.put(join(home, "a/b"), b"")
    assert store.stat(join(home, "a")) is None
    assert [exists(join(home, name)) for name in ("a/b", "a", "a/c")] == [True, False, False]


def test_delete_removes_files_and_emptied_directories(store: Store, home: str) -> None:
    uris = [join(home, f"x/{i}") for i in range(3)]
    for uri in uris:
        store.put(uri, b"")
    store.delete([*uris[:2], join(home, "none")])
    assert [entry.uri for entry in store.list(home)] == uris[2:]
    store.delete(uris)
    assert store.list(home) == []
    assert not Path(home, "x").exists()


def test_put_into_a_missing_bucket_is_a_request_error(s3: S3Server) -> None:
    s3.declare("s3://no-such-bucket")
    with pytest.raises(RequestError, match="no such bucket"):
        open_store("s3://nowhere/x").put("s3://no-such-bucket/x", b"")


def test_bucket_without_a_prefix_serves_as_a_directory(s3: S3Server) -> None:
    bucket = s3.new_bucket("root")
    s3.declare(f"s3://{bucket}")
    home = f"s3://{bucket}"
    store = open_store(home)
    store.put(f"{home}/a/b", b"")
    assert [entry.uri for entry in store.list(home)] == [f"{home}/a/b"]
    upload_id = store.begin_parts(f"{home}/large", "")
    store.abort_parts(home)
    with pytest.raises(StoreError):
        store.put_part(f"{home}/large", upload_id, 1, 0, b"x")


def test_forked_process_opens_its_own_store(s3: S3Server) -> None:
    bucket = s3.new_bucket("forked")
    uri = f"s3://{bucket}/a"
    s3.declare(f"s3://{bucket}")
    store = open_store(uri)
    store.put(uri, b"data")
    child_pid = os.fork()
    if not child_pid:
        own_store = open_store(uri)
        os._exit(0 if own_store is not store and own_store.read(uri, 0, 4) == b"data" else 1)
    assert store.read(uri, 0, 4) == b"data"
    assert os.waitpid(child_pid, 0)[1] == 0


def test_directory_marker_is_not_listed(s3: S3Server) -> None:
    bucket = s3.new_bucket("marks")
    s3.declare(f"s3://{bucket}")
    store = open_store(f"s3://{bucket}")
    store.put(f"s3://{bucket}/home/", b"")
    assert store.list(f"s3://{bucket}/home") == []


def test_listing_can_be_limited_to_names_with_a_prefix(store: Store, home: str) -> None:
    for name in ("a", "a-1/b", "a-2/c/d", "b-1/a-3", "b/a-4/e"):
        store.put(join(home, name), b"")
    assert [entry.uri for entry in store.list(home, "a-")] == [join(home, "a-1/b"), join(home, "a-2/c/d")]
    assert [entry.uri for entry in store.list(home, "a")] == [join(home, name) for name in ("a", "a-1/b", "a-2/c/d")]
    assert store.list(home, "c") == store.list(join(home, "none"), "a") == []


def test_folders_of_a_directory_are_listed_without_their_files(store: Store, home: str) -> None:
    for name in ("b/1", "a/b/c", "a/d", "file"):
        store.put(join(home, name), b"")
    assert store.folder_names(home) == ["a", "b"]
    assert store.folder_names(join(home, "a")) == ["b"]
    assert store.folder_names(join(home, "none")) == store.folder_names(join(home, "b")) == []


def test_stats_of_many_files_equal_single_stats(store: Store, home: str) -> None:
    """Existing files and missing files, in one directory and in several."""
    existing = [join(home, name) for name in (*(f"many/{i}" for i in range(40)), "few/1", "many/below/1")]
    for uri in existing:
        store.put(uri, uri.encode())
    uris = [*existing, join(home, "many/none"), join(home, "none/at all"), join(home, "many")]
    assert store.stats(uris) == [store.stat(uri) for uri in uris]
    assert store.stats([]) == []
