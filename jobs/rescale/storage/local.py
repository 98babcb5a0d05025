"""Local (or network-mounted) files.

A file appears by rename or link from a temporary one, after it was forced to disk. Temporary files lie beside the
directory that is written to, never in it: what lists a target must not take them for state.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from rescale.errors import RequestError, SnapshotError, StoreError
from rescale.storage.contract import Entry, Pin


class LocalStore:
    """`Store` over the file system."""

    def stat(self, uri: str) -> Pin | None:
        with _translated(uri):
            try:
                return _pin(os.stat(uri))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def modified(self, uri: str) -> datetime | None:
        pin = self.stat(uri)
        return datetime.fromtimestamp(pin.mtime_ns / 1e9, UTC) if pin and pin.mtime_ns else None

    def read(self, uri: str, start: int, length: int, pin: Pin | None = None) -> bytes:
        with _translated(uri), _opened(uri) as descriptor:
            _check_pin(uri, os.fstat(descriptor), pin)
            return _read_exactly(uri, descriptor, start, length)

    def read_all(self, uri: str, limit: int, pin: Pin | None = None) -> tuple[bytes, Pin]:
        with _translated(uri), _opened(uri) as descriptor:
            status = os.fstat(descriptor)
            _check_pin(uri, status, pin)
            if status.st_size > limit:
                raise SnapshotError(
                    "a file is larger than it can be", path=uri, expected=f"at most {limit} bytes", found=status.st_size
                )
            return _read_exactly(uri, descriptor, 0, status.st_size), _pin(status)

    def put(self, uri: str, data: bytes) -> None:
        with _translated(uri), _temporary(uri, data) as path:
            path.replace(uri)
            _sync_directory(Path(uri).parent)

    def put_if_absent(self, uri: str, data: bytes) -> bool:
        with _translated(uri):
            with _temporary(uri, data) as path:
                try:
                    os.link(path, uri)
                except FileExistsError:
                    return self.read_all(uri, max(len(data), Path(uri).stat().st_size))[0] == data
            _sync_directory(Path(uri).parent)
            return True

    def honours_conditions(self, uri: str, data: bytes) -> bool:  # noqa: ARG002
        return True  # link(2) never replaces

    def list(self, directory: str) -> list[Entry]:
        entries = []
        with _translated(directory):
            for folder, _, names in os.walk(directory):
                for name in names:
                    path = os.path.join(folder, name)  # noqa: PTH118
                    with suppress(FileNotFoundError):  # gone meanwhile
                        entries.append(Entry(path, os.stat(path).st_size))
        return sorted(entries, key=lambda entry: entry.uri)

    def delete(self, uris: Iterable[str]) -> None:
        parents = set()
        for uri in uris:
            with _translated(uri):
                Path(uri).unlink(missing_ok=True)
            parents.add(Path(uri).parent)
        for folder in sorted(parents, key=lambda path: len(path.parts), reverse=True):
            with suppress(OSError):  # not empty, or not there: then it stays as it is
                folder.rmdir()

    def begin_parts(self, uri: str, staging: str) -> str:
        path = Path(staging, Path(uri).name)
        with _translated(uri):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return str(path)

    def put_part(self, uri: str, token: str, number: int, offset: int, data: bytes) -> str:  # noqa: ARG002
        with _translated(token):
            # Without O_CREAT: a task that wakes up after the file was completed must not begin another one.
            descriptor = os.open(token, os.O_WRONLY)
            try:
                view = memoryview(data)
                while view:
                    written = os.pwrite(descriptor, view, offset)
                    view, offset = view[written:], offset + written
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return ""

    def complete_parts(self, uri: str, token: str, receipts: Sequence[str], size: int) -> None:  # noqa: ARG002
        with _translated(uri):
            try:
                found = os.stat(token).st_size
                if found != size:
                    raise StoreError("parts of a file are missing", path=token, expected=size, found=found)
                Path(uri).parent.mkdir(parents=True, exist_ok=True)
                Path(token).replace(uri)
                _sync_directory(Path(uri).parent)
            except FileNotFoundError:
                there = self.stat(uri)
                if there is None or there.size != size:
                    raise
        self.delete([token])

    def abort_parts(self, directory: str) -> None:
        """Parts lie in the staging directory, whose owner lists and deletes it."""


@contextmanager
def _opened(uri: str) -> Iterator[int]:
    try:
        descriptor = os.open(uri, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
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
        raise SnapshotError(
            "a file ends too early", path=uri, offset=start, expected=f"{length} bytes", found=f"{len(data)} bytes"
        )
    return data


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


@contextmanager
def _temporary(uri: str, data: bytes) -> Iterator[Path]:
    """A file with `data`, on disk, on the same file system as `uri` and outside its directory if that can be."""
    target = Path(uri)
    target.parent.mkdir(parents=True, exist_ok=True)
    path = target.parent.parent / f".{target.parent.name}.{uuid.uuid4().hex}.tmp"
    try:
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield path
    finally:
        path.unlink(missing_ok=True)


def _sync_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_TO_SET_RIGHT = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG)


@contextmanager
def _translated(uri: str) -> Iterator[None]:
    """Errors of the operating system as ours."""
    try:
        yield
    except OSError as error:
        kind = RequestError if error.errno in _TO_SET_RIGHT else StoreError
        raise kind(f"the file system says: {error.strerror}", path=error.filename or uri) from None
