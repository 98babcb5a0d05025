"""Local (or network-mounted) files.

A file appears by rename or link from a temporary one, after it was forced to disk, and so were the directories that
name it.
"""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from rescale.errors import RequestError, SnapshotError, StoreError, UnsupportedError
from rescale.storage.checksums import Checksum
from rescale.storage.contract import Entry, PartLimits, Pin, Span, instant_of
from rescale.storage.files.durable_directories import directory_for, force_to_disk, in_one_mount, make_directory
from rescale.storage.files.local_errors import NO_LINKS, is_absent, translated
from rescale.storage.files.pinned_files import copy_span, opened, pin_of, read_exactly, same_bytes
from rescale.storage.files.temporary_files import remove_abandoned, temporary
from rescale.storage.files.write_back import begin_write_back
from rescale.storage.side_by_side import side_by_side

_ATTEMPTS = 8


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
            return pin_of(status) if stat.S_ISREG(status.st_mode) else None

    def stats(self, uris: Sequence[str]) -> list[Pin | None]:
        return side_by_side(self.stat, uris)  # it may be mounted over a network

    def modified(self, uri: str) -> datetime | None:
        pin = self.stat(uri)
        return instant_of(pin.mtime_ns) if pin is not None and pin.mtime_ns is not None else None

    def checksums(self, uri: str, pin: Pin) -> Sequence[Checksum]:  # noqa: ARG002
        return ()

    def read_size(self, length: int, at_once: int | None = None) -> int:  # noqa: ARG002
        return at_once or 1 << 20  # of so many, what is compared and hashed next is still in the processor's cache

    def read(self, uri: str, start: int, length: int, pin: Pin | None = None) -> bytes:
        with translated(uri), opened(uri, pin) as descriptor:
            return read_exactly(uri, descriptor, start, length)

    def read_all(self, uri: str, limit: int, pin: Pin | None = None) -> tuple[bytes, Pin]:
        with translated(uri), opened(uri, pin) as descriptor:
            status = os.fstat(descriptor)
            if status.st_size > limit:
                raise SnapshotError(
                    "a file is larger than it can be", path=uri, expected=f"at most {limit} bytes", found=status.st_size
                )
            return read_exactly(uri, descriptor, 0, status.st_size), pin_of(status)

    def put(self, uri: str, data: bytes) -> None:
        _refuse_device(uri)
        if self._holds(uri, data):
            return
        with translated(uri), temporary(uri, _writing(data)) as path:
            path.replace(uri)
            force_to_disk(Path(uri).parent)

    def put_if_absent(self, uri: str, data: bytes) -> bool:
        with translated(uri):
            with temporary(uri, _writing(data)) as path:
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
            force_to_disk(Path(uri).parent)
            return holds

    def honours_conditions(self, uri: str, data: bytes) -> bool:  # noqa: ARG002
        return True  # link(2) never replaces

    def list(self, directory: str, begin: str = "") -> list[Entry]:
        def fail(error: OSError) -> None:
            if error.filename == directory:
                _refuse_unlisted(directory, error)
            elif error.errno != errno.EACCES and not is_absent(error):  # closed is `lost+found`, and none of ours
                raise error

        entries = []

        with translated(directory):
            for folder, folders, names in os.walk(directory, onerror=fail):
                if folder == directory:
                    for found in (folders, names):
                        found[:] = [name for name in found if name.startswith(begin)]
                for name in names:
                    path = Path(folder, name)
                    with suppress(FileNotFoundError):  # gone meanwhile
                        entries.append(Entry(str(path), pin_of(path.stat())))
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
        _refuse_mount_point(Path(uri).parent, path.parent)
        with suppress(FileNotFoundError):  # the directory may go while it is looked through
            for abandoned in Path(staging).glob(f"{name}.*"):
                self.delete([str(abandoned)])
        for _ in range(_ATTEMPTS):
            with translated(uri), suppress(FileNotFoundError):  # who completed a file took the empty directory along
                with directory_for(path.parent):
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
        with translated(uri), temporary(uri, lambda file: copy_span(source, file, 0)) as path:
            if not same_bytes(path, Path(uri), source.length):
                path.replace(uri)
                force_to_disk(Path(uri).parent)

    def copy_part(self, uri: str, token: str, number: int, offset: int, source: Span) -> str:  # noqa: ARG002
        with translated(token):
            descriptor = os.open(token, os.O_WRONLY)  # as `put_part`
            try:
                copy_span(source, descriptor, offset)
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
                if not same_bytes(Path(token), Path(uri), size):
                    make_directory(Path(uri).parent)
                    force_to_disk(Path(token))
                    Path(token).replace(uri)
                    force_to_disk(Path(uri).parent)
            except FileNotFoundError:
                there = self.stat(uri)
                if there is None or there.size != size:
                    raise
        self.delete([token])

    def abort_parts(self, uri: str) -> None:
        """Parts lie in the staging directory, whose owner lists and deletes it; here go temporary files of the dead."""
        with translated(uri):
            remove_abandoned(Path(uri))

    def _holds(self, uri: str, data: bytes) -> bool:
        try:
            return self.read_all(uri, len(data))[0] == data
        except SnapshotError:
            return False  # larger, or taken away again


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


def _refuse_mount_point(folder: Path, staging: Path) -> None:
    """What is staged becomes a file by its name alone: better no byte of it is written than all in vain."""
    with translated(str(folder)):
        if in_one_mount(folder, staging):
            return
    raise RequestError(
        "large files cannot be written here: they are staged beside the directory, which is mounted apart",
        path=str(folder),
        expected=f"a directory in the mount of {staging}",
        found="a mount point",
        advice=f"name a directory below it, such as {folder / 'result'}",
    )


def _refuse_unlisted(directory: str, error: OSError) -> None:
    """Nothing lies in what is not there, or is a file; but what else has the name can be no directory."""
    if not is_absent(error):
        raise error
    if (file := next((str(one) for one in Path(directory).parents if one.is_file()), None)) is not None:
        raise RequestError(
            "a file stands where a directory is needed", path=file, advice="name a place that is not below a file"
        )
    if _can_be_no_directory(directory):
        raise RequestError(
            "what has this name is no directory, and no file either",
            path=directory,
            expected="a directory, or nothing yet",
            found="a link to nothing, a pipe or a device",
            advice="name another place",
        )


def _can_be_no_directory(place: str) -> bool:
    """One look, for a run beside this one may make the directory, or remove it, between two."""
    try:
        mode = Path(place).stat().st_mode
    except (OSError, ValueError):
        return Path(place).is_symlink()
    return not (stat.S_ISDIR(mode) or stat.S_ISREG(mode))


def _writing(data: bytes) -> Callable[[int], None]:
    def write(descriptor: int) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]

    return write
