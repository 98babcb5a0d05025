"""Check that files do not change while tests run, by inotify, which reports files that any process opens for writing.

inotify also reports files that are created, removed or renamed, and changes of attributes. A check only reads the
queued reports, so it can follow every test.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 2, 4, 8, 0x40, 0x80, 0x100, 0x200
_CHANGES = {
    _MODIFY: "written to",
    _ATTRIB: "given other attributes",
    _CLOSE_WRITE: "opened for writing",
    _MOVED_FROM: "renamed",
    _MOVED_TO: "put there",
    _CREATE: "made",
    _DELETE: "deleted",
}
"""Event bits of linux/inotify.h."""

_OVERFLOWN = 0x4000
_EVENT = struct.Struct("iIII")
_BUFFER = 1 << 16


class Untouched:
    """Watch on the files in some folders, including files that are put there later."""

    def __init__(self, inotify: int, folders: dict[int, Path]) -> None:
        self._inotify, self._folders = inotify, folders

    @property
    def folders(self) -> list[Path]:
        return list(self._folders.values())

    def take_touched(self) -> list[str]:
        """Return the changes since the last call, each once, in the order in which they began."""
        changes: dict[str, None] = {}
        while data := self._events():
            at = 0
            while at < len(data):
                watch, mask, _, length = _EVENT.unpack_from(data, at)
                name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0").decode()
                at += _EVENT.size + length
                assert not mask & _OVERFLOWN, "there were more changes than the kernel could queue"
                changes |= {
                    f"{self._folders[watch] / name} was {_CHANGES[bit]}": None for bit in _CHANGES if mask & bit
                }
        return list(changes)

    def _events(self) -> bytes:
        try:
            return os.read(self._inotify, _BUFFER)
        except BlockingIOError:
            return b""


@contextmanager
def untouched(*roots: Path) -> Iterator[Untouched]:
    """Watch the folders `roots` and all folders below them (Linux only)."""
    libc = ctypes.CDLL(None, use_errno=True)
    inotify = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if inotify < 0:
        raise OSError(ctypes.get_errno(), "no more files can be watched", "fs.inotify.max_user_instances")
    try:
        folders = {}
        for folder in (folder for root in roots for folder in (root, *root.rglob("*")) if folder.is_dir()):
            watch = libc.inotify_add_watch(inotify, os.fsencode(folder), sum(_CHANGES))
            if watch < 0:
                raise OSError(ctypes.get_errno(), "no more files can be watched", "fs.inotify.max_user_watches")
            folders[watch] = folder
        yield Untouched(inotify, folders)
    finally:
        os.close(inotify)
