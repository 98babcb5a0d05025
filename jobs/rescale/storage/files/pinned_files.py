"""Reads of local files in a pinned version: a file with another size or modification time is refused."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rescale.storage.contract import Pin, Span
from rescale.storage.files.local_errors import is_absent
from rescale.storage.files.mounts import closed_after
from rescale.text.errors import SnapshotError

_COMPARED_BYTES_AT_ONCE = 1 << 20

_COPIED_BYTES_AT_ONCE = 1 << 20
_UNSUPPORTED_COPY_ERRORS = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)
"""Errors of `copy_file_range(2)` where it is not possible: between file systems, without support, or in a container."""


@contextmanager
def opened_file(uri: str, pin: Pin | None = None) -> Iterator[int]:
    """Open a file to read for the block. Raises `SnapshotError` if it is gone, or not in the pinned version."""
    try:
        descriptor = os.open(uri, os.O_RDONLY)
    except (OSError, ValueError) as error:
        if not is_absent(error):
            raise
        advice = "make sure that nothing removes it, and start again"
        raise SnapshotError("a file is gone", path=uri, advice=advice) from None
    with closed_after(descriptor):
        if pin is not None:
            _check_pin(uri, pin_of(os.fstat(descriptor)), pin)
        yield descriptor


def pin_of(status: os.stat_result) -> Pin:
    return Pin(status.st_size, mtime_ns=status.st_mtime_ns)


def read_exactly(uri: str, descriptor: int, start: int, length: int) -> bytes:
    """Return exactly `length` bytes from offset `start`. Raises `SnapshotError` if the file is too short."""
    data = os.pread(descriptor, length, start)
    while len(data) < length and (chunk := os.pread(descriptor, length - len(data), start + len(data))):
        data += chunk
    if len(data) < length:
        raise _short_file_error(uri, start, length, len(data))
    return data


def copy_span(source: Span, target_descriptor: int, offset: int) -> None:
    """Copy a span to `offset` of the file descriptor `target_descriptor`. Raises the same errors as a read."""
    with opened_file(source.uri, source.pin) as descriptor:
        copied_bytes = copy_range(descriptor, source.start, source.length, target_descriptor, offset)
        if copied_bytes < source.length:
            raise _short_file_error(source.uri, source.start, source.length, copied_bytes)


def have_same_bytes(path: Path, other: Path, size: int) -> bool:
    """Tell whether two files hold the same bytes; `size` is the size of the first in bytes."""
    try:
        with other.open("rb") as other_file:
            if os.fstat(other_file.fileno()).st_size != size:
                return False
            with path.open("rb") as file:
                return all(
                    file.read(_COMPARED_BYTES_AT_ONCE) == other_file.read(_COMPARED_BYTES_AT_ONCE)
                    for _ in range(0, size, _COMPARED_BYTES_AT_ONCE)
                )
    except OSError as error:
        if is_absent(error):
            return False
        raise


def _check_pin(uri: str, present_pin: Pin, pin: Pin) -> None:
    if (pin.size, pin.mtime_ns) != (present_pin.size, present_pin.mtime_ns):
        raise SnapshotError(
            "a file has changed since it was first read",
            path=uri,
            expected=pin,
            found=present_pin,
            advice="make sure that nothing writes to the snapshot, and plan again",
        )


def _short_file_error(uri: str, start: int, length: int, present_size: int) -> SnapshotError:
    return SnapshotError(
        "a file ends too early", path=uri, offset=start, expected=f"{length} bytes", found=f"{present_size} bytes"
    )


def copy_range(source_descriptor: int, start: int, length: int, target_descriptor: int, target_offset: int) -> int:
    """Copy `length` bytes between file descriptors; return the number of bytes copied, fewer if the source ends."""
    copied_bytes, copies_in_kernel = 0, hasattr(os, "copy_file_range")  # a call of Linux
    while copied_bytes < length:
        offsets = start + copied_bytes, target_offset + copied_bytes
        try:
            new_bytes = (_copy_in_kernel if copies_in_kernel else _copy_through_memory)(
                source_descriptor, target_descriptor, length - copied_bytes, *offsets
            )
        except OSError as error:
            if not copies_in_kernel or error.errno not in _UNSUPPORTED_COPY_ERRORS:
                raise
            copies_in_kernel = False
            continue
        if new_bytes:
            copied_bytes += new_bytes
        elif copies_in_kernel:
            copies_in_kernel = False  # some file systems return 0 in the middle of a file
        else:
            break
    return copied_bytes


def _copy_in_kernel(source_descriptor: int, target_descriptor: int, length: int, start: int, target_offset: int) -> int:
    return os.copy_file_range(source_descriptor, target_descriptor, length, start, target_offset)


def _copy_through_memory(
    source_descriptor: int, target_descriptor: int, length: int, start: int, target_offset: int
) -> int:
    return os.pwrite(
        target_descriptor, os.pread(source_descriptor, min(length, _COPIED_BYTES_AT_ONCE), start), target_offset
    )
