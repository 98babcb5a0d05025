"""Finds where the states in a header start, without knowing their serializers.

A serializer snapshot has no length, so a snapshot of an unknown class hides where the next state begins. But each state
begins with bytes that no serializer writes (`StateMetaInfoSnapshotReadersWriters`): a name, one of five kinds, options,
and the first serializer, with keys that Flink fixes. This module searches for such beginnings. A false match is
noticed, because then there are more beginnings than the header's count of states.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rescale.flink.encoding.binary import ByteReader
from rescale.text.errors import SnapshotError

STATE_COUNT_SIZE = 2
"""Size in bytes of the count of states, in front of the first state."""

_SERIALIZER_KEY = re.compile(
    rb"\x00(?:\x0eKEY_SERIALIZER|\x14NAMESPACE_SERIALIZER|\x10VALUE_SERIALIZER|\x13USER_KEY_SERIALIZER)"
    rb"(?=\x00\x00\x00\x02)"
)
"""Bytes in front of a serializer snapshot: key of the serializer (`CommonSerializerKeys`), version of the format."""

_BYTES_AFTER_NAME = re.compile(
    rb"\x00\x00\x00[\x00-\x04]\x00\x00\x00[\x00-\x02]"
    rb"(?:\x00(?:\x10KEYED_STATE_TYPE|\x20OPERATOR_STATE_DISTRIBUTION_MODE)\x00[\x01-\x40][A-Z_]+)*"
    rb"\x00\x00\x00[\x01-\x03](?=" + _SERIALIZER_KEY.pattern + rb")"
)
"""Bytes after the name of a state: kind (`BackendStateType`), options (`CommonOptionsKeys`), number of serializers."""


def state_starts(reader: ByteReader) -> tuple[int, ...]:
    """Return the offsets at which a state seems to begin, between the reader's position and its end."""
    matches = _BYTES_AFTER_NAME.finditer(reader.data, reader.position, reader.end)
    return tuple(start for match in matches for start in _name_starts(reader, match.start()))


def serializer_starts(reader: ByteReader, end: int) -> tuple[int, ...]:
    """Return the offsets at which the key of a serializer seems to begin, between the reader's position and `end`."""
    return tuple(match.start() for match in _SERIALIZER_KEY.finditer(reader.data, reader.position, end))


def _name_starts(reader: ByteReader, end: int) -> Iterator[int]:
    """Yield the possible starts of a name that ends at `end`: a length, then that many nonzero bytes (`writeUTF`)."""
    last_zero = reader.data.rfind(b"\0", reader.position, end)
    for start in range(max(last_zero - 1, reader.position), end - 1):
        if int.from_bytes(reader.data[start : start + 2], "big") == end - start - 2 and _is_valid_name(
            reader, start, end
        ):
            yield start


def _is_valid_name(reader: ByteReader, start: int, end: int) -> bool:
    try:
        ByteReader(reader.data, position=start, end=end).utf()
    except SnapshotError:
        return False
    return True
