"""Constants of the framing of records in a canonical key group (`FullSnapshotAsyncWriter`)."""

from __future__ import annotations

ID_SIZE = 2
"""Size in bytes of a state id."""

LENGTH_SIZE = 4
"""Size in bytes of the length in front of a key or a value."""

NEXT_ID_FLAG = 0x80
"""Bit in the first byte of a key; if it is set, a state id follows the record."""

END_OF_GROUP = 0xFFFF
"""Value in place of the next state's id, after the last record of a key group."""

LARGEST_RECORD_SIZE = 1 << 30
"""Largest record in bytes; a task holds a whole record in memory, several times over."""
