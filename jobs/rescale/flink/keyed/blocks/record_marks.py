"""Sizes and marks of the records of a canonical key group (`FullSnapshotAsyncWriter`)."""

from __future__ import annotations

ID_SIZE = 2
"""Bytes of a state's id."""

LENGTH_SIZE = 4
"""Bytes of the length before a key, and of that before a value."""

FLAG = 0x80
"""Bit of a key's first byte which says that an id follows the record."""

END_OF_GROUP = 0xFFFF
"""Mark in place of the next state's id."""

LARGEST_RECORD = 1 << 30
"""Largest record in bytes; memory holds a whole record, several times over."""
