"""The headers of changelogs, composed from the header of the materialised part and the states that the log describes.

The log does not describe the key serializer. So the key serializer is taken from the materialised part, from timers in
the log, or from the changelog of another subtask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from rescale.flink.keyed.header import KeyedHeader, merge_keyed_headers, write_keyed_header
from rescale.flink.keyed.namespaces import is_timer_queue, serializer_of
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.state_meta_info import SerializerKey, StateMetaInfo
from rescale.snapshot.keyed_state import Changelog
from rescale.text.errors import located


class HeaderlessChangelog(NamedTuple):
    """A changelog without its header, and the states that its log describes: None if a state could not be read."""

    changelog: Changelog
    logged: tuple[StateMetaInfo, ...] | None


def with_headers(read_parts: Sequence[HeaderlessChangelog], label: str) -> tuple[Changelog, ...]:
    """Return the changelogs of an operator with their headers, except those of subtasks without state.

    `label` names the operator in errors. Raises `SnapshotError` if descriptions of a state contradict each other.
    """
    key_serializer = next((key_serializer for part in read_parts for key_serializer in _key_serializers(part)), None)
    known_headers: dict[bytes, tuple[bytes, KeyedHeader]] = {}
    with located(operator=label):
        return tuple(
            _with_header(part, key_serializer, known_headers)
            for part in read_parts
            if part.changelog.base or part.changelog.changes
        )


def _with_header(
    read_part: HeaderlessChangelog,
    key_serializer: SerializerSnapshot | None,
    known_headers: dict[bytes, tuple[bytes, KeyedHeader]],
) -> Changelog:
    """Return the changelog with its header; `known_headers` stores equal headers of thousands of subtasks only once."""
    base_headers = [part.parsed for part in read_part.changelog.base]
    parsed_headers = [replace(header, compressed=False) for header in base_headers if header is not None]
    if key_serializer is None or read_part.logged is None or len(parsed_headers) < len(base_headers):
        return read_part.changelog
    logged_headers = [KeyedHeader(False, key_serializer, (state,)) for state in read_part.logged]
    merged_header = merge_keyed_headers([*parsed_headers, *logged_headers]).header
    written_header = write_keyed_header(merged_header)
    header, parsed = known_headers.setdefault(written_header, (written_header, merged_header))
    names = frozenset(state.name for state in read_part.logged)
    return replace(read_part.changelog, header=header, parsed=parsed, logged_states=names)


def _key_serializers(read_part: HeaderlessChangelog) -> Iterator[SerializerSnapshot]:
    yield from (part.parsed.key_serializer for part in read_part.changelog.base if part.parsed is not None)
    timers = filter(is_timer_queue, read_part.logged or ())
    yield from (serializer_of(state, SerializerKey.VALUE).nested[0] for state in timers)
