"""Processes without access to a directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NOBODY = 65534


@contextmanager
def without_access(folder: Path) -> Iterator[None]:
    """Let this process have no access to a directory during the block; root becomes another user for that."""
    user = os.geteuid()
    folder.chmod(0)
    if user == 0:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(0o700)
