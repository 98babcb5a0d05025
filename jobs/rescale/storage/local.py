"""Local (or network-mounted) files.

A file appears by rename or link from a temporary one, after it was forced to disk, and so were the directories that
name it. Temporary files lie beside the directory that is written to: what lists a target must not take them for
state. Only where that is another file system (the directory is a mount point) or closed to us they lie in it.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from rescale.errors import RequestError, SnapshotError, StoreError, UnsupportedError
from rescale.storage.checksums import Checksum
from rescale.storage.contract import Entry, PartLimits, Pin, Span, instant_of
from rescale.storage.file_copies import copy_range
from rescale.storage.local_errors import NO_LINKS, is_absent, translated
from rescale.storage.side_by_side import side_by_side
from rescale.storage.write_back import begin_write_back


class LocalStore:
    """`Store` over the file system."""

    part_limits = PartLimits(smallest=1, most=10_000)  # it needs none; what S3 takes is plenty

    def stat(self, uri: str) -> Pin | None:
        with translated(uri):
            try:
                status = Path(uri).stat()
            except (OSError, ValueError) as error:
                if is_absent(error):
                    return None
                raise
            return _pin(status) if stat.S_ISREG(status.st_mode) else None

    def stats(self, uris: Sequence[str]) -> list[Pin | None]:
        return side_by_side(self.stat, uris)  # it may be mounted over a network

    def modified(self, uri: str) -> datetime | None:
        pin = self.stat(uri)
        return instant_of(pin.mtime_ns) if pin and pin.mtime_ns else None

    def checksums(self, uri: str, pin: Pin) -> Sequence[Checksum]:  # noqa: ARG002
        return ()

    def read_size(self, length: int, at_once: int | None = None) -> int:  # noqa: ARG002
        return at_once or 1 << 20  # of so many, what is compared and hashed next is still in the processor's cache

    def read(self, uri: str, start: int, length: int, pin: Pin | None = None) -> bytes:
        with translated(uri), _opened(uri) as descriptor:
            _check_pin(uri, os.fstat(descriptor), pin)
            return _read_exactly(uri, descriptor, start, length)

    def read_all(self, uri: str, limit: int, pin: Pin | None = None) -> tuple[bytes, Pin]:
        with translated(uri), _opened(uri) as descriptor:
            status = os.fstat(descriptor)
            _check_pin(uri, status, pin)
            if status.st_size > limit:
                raise SnapshotError(
                    "a file is larger than it can be", path=uri, expected=f"at most {limit} bytes", found=status.st_size
                )
            return _read_exactly(uri, descriptor, 0, status.st_size), _pin(status)

    def put(self, uri: str, data: bytes) -> None:
        _refuse_device(uri)
        if self._holds(uri, data):
            return
        with translated(uri), _temporary(uri, _writing(data)) as path:
            path.replace(uri)
            _sync(Path(uri).parent)

    def put_if_absent(self, uri: str, data: bytes) -> bool:
        with translated(uri):
            with _temporary(uri, _writing(data)) as path:
                try:
                    os.link(path, uri)
                    holds = True
                except FileExistsError:
                    holds = self._holds(uri, data)
                except OSError as error:
                    if error.errno not in NO_LINKS:
                        raise
                    raise UnsupportedError(
                        f"the file system has no hard links, which a put-if-absent needs: {error.strerror}",
                        path=uri,
                        advice="name a target on another file system, or see to it yourself that no other run has "
                        "this target and say --accept-unconditional-publish",
                    ) from None
            _sync(Path(uri).parent)
            return holds

    def honours_conditions(self, uri: str, data: bytes) -> bool:  # noqa: ARG002
        return True  # link(2) never replaces

    def list(self, directory: str) -> list[Entry]:
        entries = []
        with translated(directory):
            for folder, _, names in os.walk(directory):
                for name in names:
                    path = Path(folder, name)
                    with suppress(FileNotFoundError):  # gone meanwhile
                        entries.append(Entry(str(path), _pin(path.stat())))
        return sorted(entries, key=lambda entry: entry.uri)

    def delete(self, uris: Iterable[str]) -> None:
        parents = set()
        for uri in uris:
            with translated(uri), suppress(NotADirectoryError):
                Path(uri).unlink(missing_ok=True)
            parents.add(Path(uri).parent)
        for folder in sorted(parents, key=lambda path: len(path.parts), reverse=True):
            with suppress(OSError):  # not empty, or not there: then it stays as it is
                folder.rmdir()

    def begin_parts(self, uri: str, staging: str) -> str:
        # A file of this run's own: were it shared, whoever completes it first would leave the other one with holes.
        name = Path(uri).name
        path = Path(staging, f"{name}.{uuid.uuid4().hex}")
        with suppress(FileNotFoundError):  # the directory may go while it is looked through
            for abandoned in Path(staging).glob(f"{name}.*"):
                self.delete([str(abandoned)])
        for _ in range(_ATTEMPTS):
            with translated(uri), suppress(FileNotFoundError):  # who completed a file took the empty directory along
                with _directory(path.parent):
                    path.touch()
                return str(path)
        raise StoreError("the staging directory vanishes again and again", path=staging)

    def put_part(self, uri: str, token: str, number: int, offset: int, data: bytes | bytearray) -> str:  # noqa: ARG002
        with translated(token):
            # Without O_CREAT: a task that wakes up after the file was completed must not begin another one.
            descriptor = os.open(token, os.O_WRONLY)
            try:
                view, place = memoryview(data), offset
                while view:
                    written = os.pwrite(descriptor, view, place)
                    view, place = view[written:], place + written
                begin_write_back(descriptor, offset, len(data))
            finally:
                os.close(descriptor)
        return ""

    def copy(self, uri: str, source: Span) -> None:
        with translated(uri), _temporary(uri, lambda file: _copy(source, file, 0)) as path:
            if not _same_bytes(path, Path(uri), source.length):
                path.replace(uri)
                _sync(Path(uri).parent)

    def copy_part(self, uri: str, token: str, number: int, offset: int, source: Span) -> str:  # noqa: ARG002
        with translated(token):
            descriptor = os.open(token, os.O_WRONLY)  # as `put_part`
            try:
                _copy(source, descriptor, offset)
                begin_write_back(descriptor, offset, source.length)
            finally:
                os.close(descriptor)
        return ""

    def complete_parts(self, uri: str, token: str, receipts: Sequence[str], size: int) -> None:  # noqa: ARG002
        with translated(uri):
            try:
                found = Path(token).stat().st_size
                if found != size:
                    raise StoreError("parts of a file are missing", path=token, expected=size, found=found)
                if not _same_bytes(Path(token), Path(uri), size):
                    _make_directory(Path(uri).parent)
                    _sync(Path(token))
                    Path(token).replace(uri)
                    _sync(Path(uri).parent)
            except FileNotFoundError:
                there = self.stat(uri)
                if there is None or there.size != size:
                    raise
        self.delete([token])

    def abort_parts(self, uri: str) -> None:
        """Parts lie in the staging directory, whose owner lists and deletes it; here go temporary files of the dead.

        Who writes one holds its lock, which ends with the process, by SIGKILL too.
        """
        folder = Path(uri)
        pattern = re.compile(rf"\.{re.escape(folder.name)}\.[0-9a-f]{{32}}\.tmp")
        for place in (folder.parent, folder):
            with translated(uri), suppress(FileNotFoundError, NotADirectoryError):
                for path in [one for one in place.iterdir() if pattern.fullmatch(one.name)]:
                    _remove_unless_locked(path)

    def _holds(self, uri: str, data: bytes) -> bool:
        try:
            return self.read_all(uri, len(data))[0] == data
        except SnapshotError:
            return False  # larger, or taken away again


def _same_bytes(path: Path, other: Path, size: int) -> bool:
    """Whether both files hold the same; `size` is that of the first one, in bytes."""
    try:
        with other.open("rb") as there:
            if os.fstat(there.fileno()).st_size != size:
                return False
            with path.open("rb") as file:
                return all(
                    file.read(_COMPARED_AT_ONCE) == there.read(_COMPARED_AT_ONCE)
                    for _ in range(0, size, _COMPARED_AT_ONCE)
                )
    except OSError as error:
        if is_absent(error):
            return False
        raise


def _refuse_device(uri: str) -> None:
    """A pipe or a device, such as `/dev/stdout` is a name of, would be replaced by the file, for everybody."""
    with translated(uri):
        try:
            mode = Path(uri).stat().st_mode
        except (OSError, ValueError) as error:
            if is_absent(error):
                return
            raise
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # of a directory the file system says so itself
        raise RequestError(
            "what has this name is no file, and cannot be replaced by one",
            path=uri,
            expected="a file, or nothing yet",
            found="a pipe or a device",
            advice="name a file",
        )


@contextmanager
def _opened(uri: str) -> Iterator[int]:
    try:
        descriptor = os.open(uri, os.O_RDONLY)
    except (OSError, ValueError) as error:
        if not is_absent(error):
            raise
        raise SnapshotError("a file is gone", path=uri, advice="see that nothing removes it, and start again") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read_exactly(uri: str, descriptor: int, start: int, length: int) -> bytes:
    data = os.pread(descriptor, length, start)
    while len(data) < length and (more := os.pread(descriptor, length - len(data), start + len(data))):
        data += more
    if len(data) < length:
        raise _too_short(uri, start, length, len(data))
    return data


def _too_short(uri: str, start: int, length: int, found: int) -> SnapshotError:
    return SnapshotError(
        "a file ends too early", path=uri, offset=start, expected=f"{length} bytes", found=f"{found} bytes"
    )


def _pin(status: os.stat_result) -> Pin:
    return Pin(status.st_size, mtime_ns=status.st_mtime_ns)


def _check_pin(uri: str, status: os.stat_result, pin: Pin | None) -> None:
    if pin is not None and (pin.size, pin.mtime_ns) != (status.st_size, status.st_mtime_ns):
        raise SnapshotError(
            "a file has changed since it was first looked at",
            path=uri,
            expected=pin,
            found=_pin(status),
            advice="see that nothing writes to the snapshot, and plan again",
        )


def _copy(source: Span, target: int, offset: int) -> None:
    with _opened(source.uri) as opened:
        _check_pin(source.uri, os.fstat(opened), source.pin)
        copied = copy_range(opened, source.start, source.length, target, offset)
        if copied < source.length:
            raise _too_short(source.uri, source.start, source.length, copied)


def _writing(data: bytes) -> Callable[[int], None]:
    def write(descriptor: int) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]

    return write


@contextmanager
def _temporary(uri: str, fill: Callable[[int], None]) -> Iterator[Path]:
    """A file, on disk, on the same file system as `uri` and outside its directory if that can be.

    `fill` gets its descriptor, and writes it.
    """
    folder = Path(uri).parent
    with _directory(folder):
        beside = folder.parent
        apart = beside.stat().st_dev == folder.stat().st_dev and os.access(beside, os.W_OK)
        path = (beside if apart else folder) / f".{folder.name}.{uuid.uuid4().hex}.tmp"
        try:
            with path.open("xb") as file:
                with suppress(OSError):  # a file system without locks: then nobody else removes the file either
                    fcntl.flock(file, fcntl.LOCK_EX)
                fill(file.fileno())
                os.fsync(file.fileno())
                yield path
        finally:
            path.unlink(missing_ok=True)


def _remove_unless_locked(path: Path) -> None:
    with suppress(FileNotFoundError, BlockingIOError), path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            return  # a file system without locks: nobody can tell whether somebody still writes
        path.unlink()


@contextmanager
def _directory(folder: Path) -> Iterator[None]:
    """It is there for the block, durably; where no room is left for what comes into it, no empty one stays."""
    missing = [one for one in (folder, *folder.parents) if not one.is_dir()]
    try:
        _make_directory(folder)
        yield
    except OSError:
        for one in missing:
            with suppress(OSError):  # not empty, or not there
                one.rmdir()
        raise


def _make_directory(folder: Path) -> None:
    """The directory and those above it, durably."""
    if not folder.is_dir():
        _make_directory(folder.parent)
        try:
            folder.mkdir()
        except FileExistsError:  # made by somebody else, and perhaps taken away again, which is for who writes to tell
            with suppress(FileNotFoundError):
                if not stat.S_ISDIR(folder.stat().st_mode):
                    raise
        _sync(folder.parent)


def _sync(path: Path) -> None:
    """Forces a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_ATTEMPTS = 8
_COMPARED_AT_ONCE = 1 << 20
