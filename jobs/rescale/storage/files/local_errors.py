"""What the operating system reports of files, as our errors: who must act, and whether another try may help."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from rescale.errors import NO_ROOM, RequestError, StoreError

NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)
"""What a file system says that has no hard links."""

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_MISPLACED = (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP, errno.EXDEV)

_NO_DIRECTORY = "a file, or a link to nothing, stands where a directory is needed"
"""What `File exists` means: no other name is made that must not be there yet."""


def is_absent(error: OSError | ValueError) -> bool:
    """Whether no such file is there, or can be: a damaged snapshot may name one with a NUL."""
    return not isinstance(error, OSError) or error.errno in _ABSENT


@contextmanager
def translated(uri: str) -> Iterator[None]:
    """Errors of the operating system in the block as ours."""
    try:
        yield
    except OSError as error:
        kind = RequestError if error.errno in (*_CLOSED, *_MISPLACED) else StoreError
        path = error.filename or uri
        said = _NO_DIRECTORY if error.errno == errno.EEXIST else f"the file system says: {error.strerror}"
        raise kind(said, path=path, advice=_advice(error)) from None
    except ValueError:
        raise RequestError("no file can have this name", path=ascii(uri), advice="name another place") from None


def _advice(error: OSError) -> str:
    if error.errno in _CLOSED:
        return "give the user that runs this access to it, or name another place"
    if error.errno in _MISPLACED:
        return "name another place"
    if error.errno == errno.EFBIG:
        return "have the limit on the size of files raised (ulimit -f), or name a place on another file system"
    if error.errno in NO_ROOM:
        return "make room there, or have the quota raised, then run the same command again"
    return "see that the directory is there and its file system is mounted, then run the same command again"
