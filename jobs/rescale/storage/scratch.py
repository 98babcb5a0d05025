"""Directories on this machine that go with the process that made them, however it ends.

Each is locked for as long as it is used (`flock`), and a lock ends with its process. What a killed process left is not
locked any more: whoever makes the next directory on this machine removes it, and so does `rescale discard`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from enum import StrEnum
from pathlib import Path

from rescale.errors import RequestError, StoreError

_OF_SPARK = "blockmgr-*"
"""The scratch directories of Spark's applications (`DiskBlockManager`), beside each other; killed ones leave theirs."""

_NO_LOCKS = (errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What a file system says that has none for directories, as NFS (`flock(2)`): nobody removes what others left then."""


class ScratchKind(StrEnum):
    """What a directory is for; by what its name begins with it is ours."""

    DATABASE = "rescale-database-"
    SPARK = "rescale-spark-"
    LIBRARY = "rescale-library-"
    EVENT_LOG = "rescale-event-log-"
    RESULT = "rescale-result-"
    CHANGELOG = "rescale-changelog-"


def temporary_directory() -> str:
    """The system's place for temporary files; `RequestError` if it has none."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError as error:
        raise RequestError(
            "there is no place for temporary files that can be written to",
            found=error.strerror,
            advice="let TMPDIR name a directory that the user who runs this may write to",
        ) from None


def scratch_directory() -> str:
    """Where Spark keeps what it shuffles; else the system's place for temporary files."""
    return scratch_directories()[0]


def scratch_directories() -> list[str]:
    """All places that Spark may use."""
    named = [place for place in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if place]
    return named or [temporary_directory()]


def no_room_for_rows(error: OSError, folder: str) -> StoreError:
    """What it is that rows which wait there for their new place could not be written."""
    return StoreError(
        f"no room for rows in the scratch directory: {error}",
        path=folder,
        advice="make room there, or name a directory with more room in SPARK_LOCAL_DIRS, then run the same command "
        "again: it resumes",
    )


@contextmanager
def scratch_folder(place: Path, kind: ScratchKind) -> Iterator[Path]:
    """A new directory below `place`, which is made as Spark makes its own, until the block ends."""
    place.mkdir(parents=True, exist_ok=True)
    remove_left(place)
    with ExitStack() as stack:
        path = None
        while path is None:
            path = _made(place, kind, stack)
        stack.callback(shutil.rmtree, path, ignore_errors=True)
        yield path


def remove_left(place: Path) -> None:
    """Removes, below `place`, what processes of ours left that are not there any more."""
    for home in {place, *place.parent.glob(_OF_SPARK)}:
        for path in [one for kind in ScratchKind for one in home.glob(f"{kind}*")]:
            with suppress(OSError), ExitStack() as stack:  # in use, or another user's
                _lock(path, stack, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path)


def remove_all_left() -> None:
    """The same in all places where processes of ours keep something on this machine."""
    for place in {temporary_directory(), *scratch_directories()}:
        remove_left(Path(place))


def _made(place: Path, kind: ScratchKind, stack: ExitStack) -> Path | None:
    """A new directory, locked; None if another process took it for one that was left, in between."""
    path = Path(tempfile.mkdtemp(prefix=kind, dir=place))
    try:
        _lock(path, stack, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in (errno.ENOENT, *_NO_LOCKS):
            raise
    return path if path.exists() else None


def _lock(path: Path, stack: ExitStack, kind: int) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    stack.callback(os.close, descriptor)
    fcntl.flock(descriptor, kind)
