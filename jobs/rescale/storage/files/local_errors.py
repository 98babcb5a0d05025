"""Turns errors of the operating system into Rescale's, which say who must act and whether another try may help."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rescale.text.advice import SAME_COMMAND, Advice
from rescale.text.errors import NO_ROOM_ERRORS, RequestError, StoreError

NO_LINK_ERRORS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)
"""Error numbers of a file system without hard links."""

_ABSENT_ERRORS = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_DENIED_ERRORS = (errno.EACCES, errno.EPERM, errno.EROFS)
_WRONG_PLACE_ERRORS = (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP, errno.EXDEV)

_NOT_A_DIRECTORY = "a file, or a link to nothing, stands where a directory is needed"
"""Meaning of `EEXIST`: only making a directory raises it here."""


def is_absent(error: OSError | ValueError) -> bool:
    """Tell whether an error means that there is no such file, or that there can be none (a name with a NUL)."""
    return not isinstance(error, OSError) or error.errno in _ABSENT_ERRORS


def error_class(error: OSError) -> type[RequestError] | type[StoreError]:
    """Return the class for an error of the operating system: `RequestError` if the user must act, else `StoreError`."""
    return RequestError if error.errno in (*_DENIED_ERRORS, *_WRONG_PLACE_ERRORS) else StoreError


@contextmanager
def translated_errors(uri: str) -> Iterator[None]:
    """Turn errors of the operating system in the block into Rescale's errors."""
    try:
        yield
    except OSError as error:
        path = error.filename or uri
        what = _NOT_A_DIRECTORY if error.errno == errno.EEXIST else f"the file system says: {error.strerror}"
        raise error_class(error)(what, path=path, advice=_advice(error)) from None
    except ValueError:
        raise RequestError("no file can have this name", path=ascii(uri), advice="use another path") from None


def _advice(error: OSError) -> str:
    if error.errno in _DENIED_ERRORS:
        return "give the user that runs Rescale access to it, or use another path"
    if error.errno in _WRONG_PLACE_ERRORS:
        return "use another path"
    if error.errno == errno.EFBIG:
        return "have the limit on the size of files raised (ulimit -f), or use another file system"
    if error.errno in NO_ROOM_ERRORS:
        return Advice("make room there, or have the quota raised, then ", SAME_COMMAND)
    return Advice("check that the directory exists and its file system is mounted, then ", SAME_COMMAND)


@contextmanager
def path_in_errors(path: Path) -> Iterator[None]:
    """Put the whole path into errors of the block, which may name only its last component."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        error.filename2 = None
        raise
