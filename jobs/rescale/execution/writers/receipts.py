"""The receipts of parts on their way to the driver, which has those of a whole state at once: a million and more.

As objects of Python's they would take five times what they are, in ETags of hexadecimal digits twice as much again.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

_BETWEEN = "\n"
_FAST = 1


def packed(receipts: Sequence[str]) -> bytes:
    return zlib.compress(_BETWEEN.join(receipts).encode(), _FAST)


def unpacked(receipts: bytes) -> list[str]:
    """The mirror of `packed`, of at least one receipt."""
    return zlib.decompress(receipts).decode().split(_BETWEEN)
