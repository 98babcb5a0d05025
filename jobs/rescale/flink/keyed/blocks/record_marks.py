"""The marks between the records of a canonical key group (`FullSnapshotAsyncWriter`), and how long one may be."""

from __future__ import annotations

ID_SIZE = 2
"""Of a state's id."""

FLAG = 0x80
"""Bit of the first byte of a key: an id follows the record."""

END_OF_GROUP = 0xFFFF
"""In the place of the next state's id."""

LARGEST_RECORD = 1 << 30
"""Bytes: a record is held in memory as a whole, several times over."""
