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
    """A changelog without its header, and the states that its log describes; None if a state could not be read."""

    changelog: Changelog
    logged_states: tuple[StateMetaInfo, ...] | None


def with_headers(changelogs: Sequence[HeaderlessChangelog], label: str) -> tuple[Changelog, ...]:
    """Return the changelogs of an operator with their headers.

    Leaves out changelogs of subtasks without state. A changelog whose header is unknown stays without it. `label` names
    the operator in errors. Raises `SnapshotError` if descriptions of a state contradict each other.
    """
    key_serializer = next(
        (key_serializer for headerless in changelogs for key_serializer in _key_serializers(headerless)), None
    )
    known_headers: dict[bytes, tuple[bytes, KeyedHeader]] = {}
    with located(operator=label):
        return tuple(
            _with_header(headerless, key_serializer, known_headers)
            for headerless in changelogs
            if headerless.changelog.base or headerless.changelog.changes
        )


def _with_header(
    headerless: HeaderlessChangelog,
    key_serializer: SerializerSnapshot | None,
    known_headers: dict[bytes, tuple[bytes, KeyedHeader]],
) -> Changelog:
    """Return the changelog with its header; `known_headers` stores equal headers of thousands of subtasks only once."""
    base_headers = [part.parsed for part in headerless.changelog.base]
    parsed_headers = [replace(header, compressed=False) for header in base_headers if header is not None]
    if key_serializer is None or headerless.logged_states is None or len(parsed_headers) < len(base_headers):
        return headerless.changelog
    logged_headers = [KeyedHeader(False, key_serializer, (state,)) for state in headerless.logged_states]
    merged_header = merge_keyed_headers([*parsed_headers, *logged_headers]).header
    written_header = write_keyed_header(merged_header)
    header, parsed = known_headers.setdefault(written_header, (written_header, merged_header))
    state_names = frozenset(state.name for state in headerless.logged_states)
    return replace(headerless.changelog, header=header, parsed=parsed, logged_states=state_names)


def _key_serializers(headerless: HeaderlessChangelog) -> Iterator[SerializerSnapshot]:
    yield from (part.parsed.key_serializer for part in headerless.changelog.base if part.parsed is not None)
    timer_states = filter(is_timer_queue, headerless.logged_states or ())
    yield from (serializer_of(state, SerializerKey.VALUE).nested[0] for state in timer_states)
