"""Headers of keyed and operator streams, with everything that is derived from them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from fuzzing.subject import Subject
from rescale.flink.keyed.composite_key import key_offsets
from rescale.flink.keyed.header import is_compressed, merge_keyed_headers, read_keyed_header, write_keyed_header
from rescale.flink.keyed.heap.heap_entries import can_delimit_entries, entry_layouts
from rescale.flink.keyed.record_name import record_name_parts
from rescale.flink.keys.key_hash import candidate_hashes, known_hash
from rescale.flink.operator_state import (
    has_compressed_elements,
    merge_operator_state_headers,
    read_operator_state_header,
    write_operator_state_header,
)
from rescale.flink.serializers.reading import type_name
from support.snapshots import element_streams, keyed_streams, names, opened

KEYED, OPERATOR = 0, 1
_KEY = bytes(range(24))


def keyed_headers() -> Iterator[bytes]:
    """Yield the keyed header of each committed snapshot once, small ones first."""
    stream_headers = {keyed.stream.header for keyed in keyed_streams()}
    database_headers = {
        database.header for name in names() for operator in opened(name).operators for database in operator.databases
    }
    yield from sorted((stream_headers | database_headers) - {b""}, key=lambda header: (len(header), header))


def _seeds() -> Iterator[bytes]:
    yield from (bytes((KEYED,)) + header for header in keyed_headers())
    yield from (
        bytes((OPERATOR,)) + header
        for header in sorted({element_stream.stream.header for element_stream in element_streams()})
    )


def _look(data: bytes) -> None:
    if data[:1] == bytes((OPERATOR,)):
        _look_at_operator_header(data[1:])
    else:
        _look_at_keyed_header(data[1:])


def _look_at_keyed_header(data: bytes) -> None:
    header = read_keyed_header(data, "header")
    assert write_keyed_header(header) == _with_plain_flag(data, 4)
    assert is_compressed(data) == header.compressed
    type_name(header.key_serializer)
    known_hash(header.key_serializer)
    for _ in islice(candidate_hashes(header.key_serializer), 10):
        pass
    merge_keyed_headers([header, header])
    for state in header.states:
        assert state.state_type
        record_name_parts(header, state.name, _KEY)
    if can_delimit_entries(header):
        entry_layouts(header)
    key_offsets(header)


def _look_at_operator_header(data: bytes) -> None:
    header = read_operator_state_header(data, "header")
    assert write_operator_state_header(header) == (_with_plain_flag(data, 4) if header.version > 5 else data)
    assert has_compressed_elements(data) == header.compressed
    merge_operator_state_headers([header, header])
    for state in (*header.list_states, *header.broadcast_states):
        for _, serializer in state.serializers:
            type_name(serializer)


def _with_plain_flag(data: bytes, at: int) -> bytes:
    """Return the data with the flag at `at` as 0 or 1: Java reads every byte but 0 as true."""
    return data[:at] + bytes((data[at] != 0,)) + data[at + 1 :]


SUBJECT = Subject(_seeds, _look)
