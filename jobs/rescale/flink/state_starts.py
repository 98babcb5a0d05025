"""Where the states of a header begin, however little is known of their serializers.

A serializer snapshot has no length, so one of a class that is not known hides what stands behind it. But a state begins
with what no serializer writes (`StateMetaInfoSnapshotReadersWriters`): a name, one of five kinds, options and the first
serializer, under keys that Flink fixes. A header counts its states: where it has as many such beginnings, these are
they. Its states have all of them, so that one too many is told by the count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rescale.errors import SnapshotError
from rescale.flink.encoding.binary import ByteReader

NUMBER_SIZE = 2
"""Bytes of the number of states, which stands before the first."""

_SERIALIZER = re.compile(
    rb"\x00(?:\x0eKEY_SERIALIZER|\x14NAMESPACE_SERIALIZER|\x10VALUE_SERIALIZER)(?=\x00\x00\x00\x02)"
)
"""A key of a serializer (`CommonSerializerKeys`), before the version of the proxy that wrote it."""

_BEHIND_NAME = re.compile(
    rb"\x00\x00\x00[\x00-\x04]\x00\x00\x00[\x00-\x02]"
    rb"(?:\x00(?:\x10KEYED_STATE_TYPE|\x20OPERATOR_STATE_DISTRIBUTION_MODE)\x00[\x01-\x40][A-Z_]+)*"
    rb"\x00\x00\x00[\x01-\x03](?=" + _SERIALIZER.pattern + rb")"
)
"""Kind (`BackendStateType`), options (`CommonOptionsKeys`) and the number of serializers."""


def state_starts(reader: ByteReader) -> tuple[int, ...]:
    """Where something begins as a state does, from the reader's position to its end."""
    behind_names = _BEHIND_NAME.finditer(reader.data, reader.position, reader.end)
    return tuple(start for match in behind_names for start in _names_before(reader, match.start()))


def serializer_starts(reader: ByteReader, end: int) -> tuple[int, ...]:
    """Where something begins as a serializer of a state does, likewise, key included."""
    return tuple(match.start() for match in _SERIALIZER.finditer(reader.data, reader.position, end))


def _names_before(reader: ByteReader, end: int) -> Iterator[int]:
    """Where a name may begin that ends at `end`: a length and so many bytes, none of them zero (`writeUTF`)."""
    zero = reader.data.rfind(b"\0", reader.position, end)
    for start in range(max(zero - 1, reader.position), end - 1):
        if int.from_bytes(reader.data[start : start + 2], "big") == end - start - 2 and _is_name(reader, start, end):
            yield start


def _is_name(reader: ByteReader, start: int, end: int) -> bool:
    try:
        ByteReader(reader.data, position=start, end=end).utf()
    except SnapshotError:
        return False
    return True
