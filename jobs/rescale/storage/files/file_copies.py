"""Copies of ranges between open files, by the kernel if it can."""

from __future__ import annotations

import errno
import os

_AT_ONCE = 1 << 20
_NOT_HERE = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)
"""Errors of `copy_file_range` between file systems, in one that does not support it, or in a container that forbids it.
"""


def copy_range(source: int, start: int, length: int, target: int, offset: int) -> int:
    """Copy `length` bytes between file descriptors; return the number of bytes copied, fewer if the source ends."""
    done, in_the_kernel = 0, hasattr(os, "copy_file_range")  # Linux has it
    while done < length:
        place = start + done, offset + done
        try:
            copied = (_in_the_kernel if in_the_kernel else _bytewise)(source, target, length - done, *place)
        except OSError as error:
            if not in_the_kernel or error.errno not in _NOT_HERE:
                raise
            in_the_kernel = False
            continue
        if copied:
            done += copied
        elif in_the_kernel:
            in_the_kernel = False  # some file systems return 0 in the middle of a file
        else:
            break
    return done


def _in_the_kernel(source: int, target: int, length: int, start: int, offset: int) -> int:
    return os.copy_file_range(source, target, length, start, offset)


def _bytewise(source: int, target: int, length: int, start: int, offset: int) -> int:
    return os.pwrite(target, os.pread(source, min(length, _AT_ONCE), start), offset)
