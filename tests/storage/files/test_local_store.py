"""Local files alone: temporary files, disks that fill up, mount points, file systems without links."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import pytest

from rescale.storage.contract import Pin, Span
from rescale.storage.files import owned
from rescale.storage.files.document_folders import is_marked
from rescale.storage.files.durable_directories import are_in_one_mount, force_to_disk
from rescale.storage.files.local_errors import is_absent
from rescale.storage.files.local_store import LocalStore
from rescale.storage.files.mounts import identity_of
from rescale.text.errors import RequestError, RescaleError, SnapshotError, StoreError, UnsupportedError
from support.disks import mounted_at


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "above" / "home"


def _failing_with(error_number: int) -> object:
    def fail(*_: object, **__: object) -> NoReturn:
        raise OSError(error_number, os.strerror(error_number))

    return fail


@pytest.mark.parametrize("verb", ["put", "put_if_absent"])
def test_temporary_files_are_made_beside_the_directory(home: Path, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    listings: list[tuple[list[str], list[str]]] = []
    sync = os.fsync

    def list_and_sync(descriptor: int) -> None:
        listings.append((sorted(os.listdir(home)), sorted(set(os.listdir(home.parent)) - {"home"})))  # noqa: PTH208
        sync(descriptor)

    home.mkdir(parents=True)
    monkeypatch.setattr("os.fsync", list_and_sync)
    getattr(LocalStore(), verb)(str(home / "_metadata"), b"data")
    inside, beside = listings[0]
    assert inside == []
    assert len(beside) == 1
    assert beside[0].startswith(".home.")
    assert [path.name for path in home.parent.rglob("*")] == ["home", "_metadata"]


@pytest.mark.parametrize("verb", ["put", "put_if_absent"])
@pytest.mark.parametrize(
    ("error_number", "error_class", "advice"),
    [
        (errno.ENOSPC, StoreError, "make room there"),
        (errno.EIO, StoreError, "run the same command again"),
        (errno.EROFS, RequestError, "use another path"),
        (errno.ENAMETOOLONG, RequestError, "use another path"),
    ],
)
def test_put_on_a_failing_disk_leaves_no_file(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    error_number: int,
    error_class: type[RescaleError],
    advice: str,
) -> None:
    home.mkdir(parents=True)
    monkeypatch.setattr("os.fsync", _failing_with(error_number))
    with pytest.raises(error_class, match="the file system says") as caught:
        getattr(LocalStore(), verb)(str(home / "_metadata"), b"data")
    assert advice in (caught.value.advice or "")
    assert list(home.parent.rglob("*")) == [home]


@pytest.mark.parametrize("error_number", [errno.ENOSPC, errno.EDQUOT])
def test_put_on_a_full_disk_removes_the_directory_that_it_made(
    home: Path, monkeypatch: pytest.MonkeyPatch, error_number: int
) -> None:
    home.parent.mkdir()
    store, target = LocalStore(), str(home / "_metadata")
    puts: list[Callable[[], object]] = [
        lambda: store.put(target, b"data"),
        lambda: store.put_if_absent(target, b"data"),
        lambda: store.begin_parts(target, str(home / "staging")),
    ]
    monkeypatch.setattr("os.fsync", _failing_with(error_number))
    for put in puts:
        with pytest.raises(StoreError, match="the file system says") as caught:
            put()
        assert caught.value.advice == "make room there, or have the quota raised, then run the same command again"
        assert not home.exists()


def test_put_part_on_a_full_disk_is_a_store_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore()
    upload_id = store.begin_parts(str(home / "large"), str(home.parent / "staging"))
    monkeypatch.setattr("os.pwrite", _failing_with(errno.ENOSPC))
    with pytest.raises(StoreError, match="No space left"):
        store.put_part(str(home / "large"), upload_id, 1, 0, b"x")


def test_upload_with_missing_bytes_is_not_completed(home: Path) -> None:
    store = LocalStore()
    upload_id = store.begin_parts(str(home / "large"), str(home.parent / "staging"))
    store.put_part(str(home / "large"), upload_id, 1, 0, b"xx")
    with pytest.raises(StoreError, match="missing"):
        store.complete_parts(str(home / "large"), upload_id, [""], 3)
    assert not (home / "large").exists()


def test_temporary_files_are_made_inside_if_the_parent_is_not_writable(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir(parents=True)
    monkeypatch.setattr("os.access", lambda *_: False)
    monkeypatch.setattr("rescale.storage.files.owned.link", lambda path, _: linked_paths.append(path))
    linked_paths: list[Path] = []
    LocalStore().put_if_absent(str(home / "claim"), b"")
    assert linked_paths[0].parent == home
    assert linked_paths[0].name.startswith(".home.")
    assert list(home.iterdir()) == []


def test_file_in_a_mount_point_is_written_and_leaves_no_temporary_file() -> None:
    path = Path("/dev/shm", f"rescale-test-{os.getpid()}")
    try:
        assert LocalStore().put_if_absent(str(path), b"data")
        LocalStore().put(str(path), b"more")
        assert path.read_bytes() == b"more"
        assert list(path.parent.glob(".shm.*")) == []
    finally:
        path.unlink(missing_ok=True)


def test_large_file_in_a_mount_point_is_refused_before_it_is_written(tmp_path: Path) -> None:
    """Large files are staged beside the directory, and no rename moves a file to another file system."""
    with pytest.raises(RequestError, match="large files") as caught:
        LocalStore().begin_parts(f"/dev/shm/rescale-test-{os.getpid()}", str(tmp_path / "staging"))
    assert caught.value.found == "a mount point"
    assert "/dev/shm/result" in str(caught.value.advice)
    assert list(tmp_path.iterdir()) == []


def test_bind_mount_on_the_same_device_counts_as_a_mount_point(tmp_path: Path) -> None:
    """A container may mount several directories of one volume: all are on one device."""
    with mounted_at(tmp_path / "volume", tmp_path / "target") as target:
        assert target.stat().st_dev == tmp_path.stat().st_dev
        assert LocalStore().put_if_absent(str(target / "claim"), b"data")
        LocalStore().put(str(target / "claim"), b"more")
        assert [path.name for path in target.iterdir()] == ["claim"]
        with pytest.raises(RequestError, match="large files"):
            LocalStore().begin_parts(str(target / "large"), str(tmp_path / "target.rescale/staging"))
        assert {path.name for path in tmp_path.iterdir()} == {"volume", "target"}
        below = str(target / "below/large")
        upload_id = LocalStore().begin_parts(below, str(target / "below.rescale/staging"))
        LocalStore().put_part(below, upload_id, 1, 0, b"data")
        LocalStore().complete_parts(below, upload_id, [""], 4)
        assert Path(below).read_bytes() == b"data"


def test_force_to_disk_accepts_a_file_system_without_fsync_of_directories() -> None:
    """Examples are /proc and shared folders of virtual machines."""
    with pytest.raises(OSError, match="Invalid argument"):
        fsync("/proc")
    force_to_disk(Path("/proc"))


def fsync(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_copy_file_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.copy_file_range")


def _copy_no_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.copy_file_range", lambda *_: 0)


def _fail_copies_with(error_number: int) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda monkeypatch: monkeypatch.setattr("os.copy_file_range", _failing_with(error_number))


@pytest.mark.parametrize(
    "change_kernel",
    [_remove_copy_file_range, _copy_no_bytes, *map(_fail_copies_with, (errno.EXDEV, errno.ENOSYS, errno.EPERM))],
)
def test_copy_reads_and_writes_bytes_without_a_working_copy_file_range(
    home: Path, change_kernel: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS does not have `copy_file_range`. On some file systems it copies nothing in the middle of a file.

    It fails on old file systems, and in containers whose filter of system calls does not know it.
    """
    LocalStore().put(source := str(home / "source"), b"some state")
    pin = LocalStore().stat(source)
    assert pin is not None
    change_kernel(monkeypatch)
    LocalStore().copy(str(home / "copy"), Span(source, 5, 5, pin))
    assert (home / "copy").read_bytes() == b"state"
    with pytest.raises(SnapshotError):
        LocalStore().copy(str(home / "longer"), Span(source, 5, 6, pin))


def test_put_if_absent_on_a_file_system_without_hard_links_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.link", _failing_with(errno.ENOTSUP))
    with pytest.raises(UnsupportedError, match="hard links"):
        LocalStore().put_if_absent(str(home / "claim"), b"")
    assert list(home.parent.rglob("*")) == [home]


@pytest.mark.parametrize("name", ["a\0b", "a\ud800", "a" * 300, "file/below"])
def test_impossible_file_names_are_refused(home: Path, name: str) -> None:
    LocalStore().put(str(home / "file"), b"")
    with pytest.raises(RequestError):
        LocalStore().put(f"{home}/{name}", b"")
    assert sorted(path.name for path in home.parent.rglob("*")) == ["file", "home"]


def test_exceeded_file_size_limit_is_reported_with_ulimit(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", _failing_with(errno.EFBIG))
    with pytest.raises(StoreError, match="File too large") as caught:
        LocalStore().put(str(home / "file"), b"data")
    assert "ulimit -f" in (caught.value.advice or "")


def test_error_names_the_requested_file_and_not_the_temporary_one(home: Path) -> None:
    """The name of the temporary file is even longer than that of its directory."""
    uri = f"{home}/{'d' * 250}/claim"
    for put in (LocalStore().put, LocalStore().put_if_absent):
        with pytest.raises(RequestError, match="name too long") as caught:
            put(uri, b"")
        assert caught.value.path == uri


def test_dangling_link_in_place_of_a_directory_is_refused(home: Path) -> None:
    home.mkdir(parents=True)
    (home / "link").symlink_to(home / "gone")
    with pytest.raises(RequestError, match="a link to nothing, stands where a directory is needed"):
        LocalStore().put(str(home / "link/file"), b"")
    assert not (home / "gone").exists()


def test_directory_that_appears_while_it_is_listed_counts_as_empty(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of the same plan may make the directory."""
    target = home / "target"

    def make_target_first(error: OSError | ValueError) -> bool:
        target.mkdir(parents=True)
        return is_absent(error)

    monkeypatch.setattr("rescale.storage.files.local_store.is_absent", make_target_first)
    assert LocalStore().list(str(target)) == []
    assert target.is_dir()


def test_pipe_or_device_is_not_replaced_by_a_file(home: Path) -> None:
    home.mkdir(parents=True)
    pipe, link = home / "pipe", home / "link"
    os.mkfifo(pipe)
    link.symlink_to("/dev/null")
    for path in (pipe, link):
        before = path.lstat()
        with pytest.raises(RequestError, match="a pipe or a device"):
            LocalStore().put(str(path), b"data")
        assert path.lstat() == before
    assert sorted(home.parent.rglob("*")) == [home, link, pipe]


@pytest.mark.parametrize("seconds", [-1, 0, 1_900_000_000, 999_999_999_999, -99_999_999_999])
def test_modification_time_outside_the_calendar_is_no_error(seconds: int) -> None:
    """A file system in memory can keep such times."""
    path = Path("/dev/shm", f"rescale-test-{os.getpid()}")
    store = LocalStore()
    try:
        path.write_bytes(b"data")
        os.utime(path, ns=(seconds * 10**9 + 1, seconds * 10**9 + 1))
        written_at, pin = store.modification_time(str(path)), store.stat(str(path))
        assert pin == Pin(4, mtime_ns=seconds * 10**9 + 1)
        if abs(seconds) < 10**10:
            assert written_at == datetime.fromtimestamp(seconds, UTC)
            assert f"{written_at:%Y-%m-%d %H:%M:%S}.000000001 UTC" in str(pin)
        else:
            assert written_at is None
            assert f"{seconds * 10**9 + 1} ns after 1970" in str(pin)
        assert store.read(str(path), 0, 4, pin) == b"data"
    finally:
        path.unlink(missing_ok=True)


def _fail_listing(monkeypatch: pytest.MonkeyPatch, directory: Path, error_number: int) -> None:
    """Let the listing of the place fail with this error number."""
    scandir = os.scandir

    def fail(path: str) -> object:
        if Path(path) == directory:
            raise OSError(error_number, os.strerror(error_number), path)
        return scandir(path)

    monkeypatch.setattr("os.scandir", fail)


@pytest.mark.parametrize(("error_number", "error_class"), [(errno.EACCES, RequestError), (errno.EIO, StoreError)])
def test_listing_an_unreadable_directory_is_an_error(
    home: Path, monkeypatch: pytest.MonkeyPatch, error_number: int, error_class: type[RescaleError]
) -> None:
    home.mkdir(parents=True)
    _fail_listing(monkeypatch, home, error_number)
    with pytest.raises(error_class, match=os.strerror(error_number)) as caught:
        LocalStore().list(str(home))
    assert caught.value.path == str(home)


def test_unreadable_directory_below_the_listed_one_is_skipped(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many mount points have one: `lost+found`."""
    (home / "lost+found").mkdir(parents=True)
    (home / "file").write_bytes(b"data")
    _fail_listing(monkeypatch, home / "lost+found", errno.EACCES)
    assert [entry.uri for entry in LocalStore().list(str(home))] == [str(home / "file")]
    _fail_listing(monkeypatch, home / "lost+found", errno.EIO)
    with pytest.raises(StoreError):
        LocalStore().list(str(home))


def test_modification_time_zero_is_the_start_of_1970(tmp_path: Path) -> None:
    """Reproducible archives give all their files this time."""
    path = tmp_path / "_metadata"
    path.write_bytes(b"")
    os.utime(path, ns=(0, 0))
    assert LocalStore().modification_time(str(path)) == datetime(1970, 1, 1, tzinfo=UTC)


def test_directory_removed_during_the_mount_check_is_in_the_mount_of_its_parent(home: Path) -> None:
    home.mkdir(parents=True)
    staging, is_done = home / "staging", threading.Event()

    def come_and_go() -> None:
        while not is_done.is_set():
            staging.mkdir()
            staging.rmdir()

    directory_maker = threading.Thread(target=come_and_go)
    directory_maker.start()
    try:
        assert {are_in_one_mount(staging, home) for _ in range(5_000)} == {True}
    finally:
        is_done.set()
        directory_maker.join()


@pytest.mark.parametrize("patience_seconds", [0.0, 60.0], ids=["slow", "fast"])
def test_stats_returns_pins_in_the_order_of_the_uris(
    patience_seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store asks in several threads on a slow file system, and in the calling thread on a fast one."""
    monkeypatch.setattr("rescale.storage.files.local_store._PATIENCE_SECONDS", patience_seconds)
    store, asked_by = LocalStore(), set[int]()
    stat = store.stat

    def stat_and_note(uri: str) -> Pin | None:
        asked_by.add(threading.get_ident())
        return stat(uri)

    monkeypatch.setattr(store, "stat", stat_and_note)
    uris = [str(tmp_path / str(i)) for i in range(5)]
    for i in (0, 2, 3):
        Path(uris[i]).write_bytes(b"x" * i)
    assert [pin and pin.size for pin in store.stats(uris)] == [0, None, 2, 3, None]
    assert (threading.get_ident() in asked_by) is (patience_seconds > 0)
    assert store.stats([]) == []


def test_directory_of_documents_is_marked_again_after_it_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File systems give the identity of a removed directory to a new one."""
    identity = identity_of(tmp_path)
    monkeypatch.setattr(owned, "identity_from", lambda _: identity)
    documents = tmp_path / "target.rescale"
    for _ in range(2):
        owned.make_folder(documents)
        assert is_marked(documents)
        owned.remove_folder(documents)
        assert not documents.exists()
