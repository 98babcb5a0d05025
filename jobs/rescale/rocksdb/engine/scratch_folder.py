"""Directories that go with the process that made them, however it ends.

Each is locked for as long as it is used (`flock`), and a lock ends with its process. What a killed process left is not
locked any more: whoever makes the next directory on this machine removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

_PREFIX = "rescale-database-"
_OF_SPARK = "blockmgr-*"
"""The scratch directories of Spark's applications (`DiskBlockManager`), beside each other; killed ones leave theirs."""


@contextmanager
def scratch_folder(place: Path) -> Iterator[Path]:
    """A new directory below `place`, until the block ends."""
    _remove_left(place)
    with ExitStack() as stack:
        path = None
        while path is None:
            path = _made(place, stack)
        stack.callback(shutil.rmtree, path, ignore_errors=True)
        yield path


def _made(place: Path, stack: ExitStack) -> Path | None:
    """A new directory, locked; None if another process took it for one that was left, in between."""
    path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    with suppress(FileNotFoundError):
        _lock(path, stack, fcntl.LOCK_EX)
    return path if path.exists() else None


def _remove_left(place: Path) -> None:
    for home in {place, *place.parent.glob(_OF_SPARK)}:
        for path in home.glob(f"{_PREFIX}*"):
            with suppress(OSError), ExitStack() as stack:  # in use, or another user's
                _lock(path, stack, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path)


def _lock(path: Path, stack: ExitStack, kind: int) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    stack.callback(os.close, descriptor)
    fcntl.flock(descriptor, kind)
