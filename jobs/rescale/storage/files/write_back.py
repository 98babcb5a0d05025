"""Early write-back: bytes go to disk when they are written, so that a later fsync waits less."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

_BEGIN = 2  # SYNC_FILE_RANGE_WRITE: of what is dirty; nothing is waited for, and nothing promised


def begin_write_back(descriptor: int, offset: int, length: int) -> None:
    """Start the write-back of a range of a file; does nothing if the system cannot."""
    call = _sync_file_range()
    if call is not None:
        call(descriptor, offset, length, _BEGIN)


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Return Linux's `sync_file_range`; None on other systems."""
    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return call
