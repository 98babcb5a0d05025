"""Headers of state streams that Flink wrote: read, written, and the same bytes again; merged where they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from rescale.flink.keyed.header import merge_keyed_headers, read_keyed_header, write_keyed_header
from rescale.flink.metadata.checkpoint_metadata import SubtaskState
from rescale.flink.operator_state import (
    element_extents,
    merge_operator_state_headers,
    read_operator_state_header,
    write_operator_state_header,
)
from rescale.flink.serializers.reading import type_name
from rescale.flink.serializers.snapshot import UnknownSerializerError
from rescale.text.errors import SnapshotError
from support.slow import Share, in_shares
from support.snapshots import Elements, Keyed, element_streams, keyed_streams, names, opened

every_keyed_stream = pytest.mark.parametrize("keyed", keyed_streams(), ids=lambda keyed: keyed.where)
every_element_stream = pytest.mark.parametrize("elements", element_streams(), ids=lambda elements: elements.where)


@every_keyed_stream
def test_keyed_header_ends_at_the_first_group_and_is_written_back_unchanged(keyed: Keyed) -> None:
    data = keyed.stream.header
    header = read_keyed_header(data, keyed.where)
    assert write_keyed_header(header) == data
    assert all(type_name(serializer) for state in header.states for _, serializer in state.serializers)


@every_keyed_stream
def test_keyed_header_merged_with_itself_is_unchanged(keyed: Keyed) -> None:
    header = read_keyed_header(keyed.stream.header, keyed.where)
    merged = merge_keyed_headers([header, header])
    assert write_keyed_header(merged.header) == keyed.stream.header
    assert merged.id_maps == (tuple(range(len(header.states))),) * 2


@pytest.mark.parametrize("name", ["1.20-lazy", "2-lazy", "1.20-lazy-compressed", "2-lazy-compressed"])
def test_headers_with_states_registered_late_are_merged(name: str) -> None:
    operator = next(operator for operator in opened(name).operators if operator.label == "states")
    headers = [read_keyed_header(stream.header, name) for stream in operator.keyed]
    assert len(set(headers)) > 1
    merged = merge_keyed_headers(headers)
    assert read_keyed_header(write_keyed_header(merged.header), name) == merged.header
    for header, ids in zip(headers, merged.id_maps, strict=True):
        assert [merged.header.states[new].raw for new in ids] == [state.raw for state in header.states]


@every_element_stream
def test_operator_header_ends_at_the_first_element_and_is_written_back_unchanged(elements: Elements) -> None:
    data = elements.stream.header
    header = read_operator_state_header(data, elements.where)
    assert write_operator_state_header(header) == data
    assert merge_operator_state_headers([header, header]) == header
    listed_names = {state.name for state in (*header.list_states, *header.broadcast_states)}
    assert {state.name for state in elements.stream.states} == listed_names


@pytest.mark.parametrize("name", names())
def test_header_and_elements_make_up_the_whole_stream(name: str) -> None:
    snapshot = opened(name)
    for operator in snapshot.operators:
        handles = {
            subtask.index: (subtask.state or SubtaskState()).managed_operator for subtask in operator.entry.subtasks
        }
        for stream in operator.element_streams:
            handle = handles[stream.subtask]
            assert handle is not None
            extents = element_extents(handle.states, stream.extent.length)
            total = sum(length for state in extents for _, length in state)
            assert len(stream.header) + total == stream.extent.length


HeaderAndReader = tuple[bytes, Callable[[bytes, str], object]]

HEADERS_AND_READERS: list[HeaderAndReader] = [
    *((data, read_keyed_header) for data in {keyed.stream.header for keyed in keyed_streams()}),
    *((data, read_operator_state_header) for data in {elements.stream.header for elements in element_streams()}),
]
"""Each distinct header, with its reader."""


def damaged_variants(data: bytes) -> Iterator[bytes]:
    """Yield the header cut off, with a flipped byte, and with the largest length, each at about 40 places."""
    step = max(1, len(data) // 40)
    for at in range(len(data) % step, len(data), step):
        yield data[:at]
        yield data[:at] + bytes((data[at] ^ 0x81,)) + data[at + 1 :]
        yield data[:at] + b"\x7f\xff\xff\xff" + data[at + 4 :]


def test_damaged_header_is_read_or_refused() -> None:
    """Damage in a name is read as another name."""
    refusals = 0
    for data, read in HEADERS_AND_READERS:
        for damaged_data in damaged_variants(data):
            with suppress(SnapshotError, UnknownSerializerError):
                read(damaged_data, "header")
                refusals -= 1
            refusals += 1
    assert refusals > 1000


@in_shares
def test_truncated_header_of_flink_is_refused(share: Share[HeaderAndReader]) -> None:
    for data, read in share(HEADERS_AND_READERS):
        for end in range(0, len(data), 7):
            with pytest.raises((SnapshotError, UnknownSerializerError)):
                read(data[:end], "header")
