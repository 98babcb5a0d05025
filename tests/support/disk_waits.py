"""Switch for fsync, which most tests turn off, because their files need not survive a power failure.

A run calls fsync some twenty times, which often takes longer than everything else. Tests of disks and of fsync itself
leave it on.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

_fsync = os.fsync


def _at_once(descriptor: int) -> None:
    pass


def no_waits() -> AbstractContextManager[Any]:
    """Turn fsync off in this process until the block ends."""
    return patch("os.fsync", _at_once)


def real_waits() -> AbstractContextManager[Any]:
    """Turn fsync on again in this process until the block ends."""
    return patch("os.fsync", _fsync)


def are_real() -> bool:
    """Return whether this process waits for the disk now."""
    return os.fsync is not _at_once
