"""The headers of changelogs: what was materialised has one, and the log describes each state that it changes.

The log does not say how keys are written. The materialised part does, timers do, and what other subtasks have does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from rescale.errors import SnapshotError
from rescale.flink.keyed.header import KeyedHeader, merge_keyed_headers, write_keyed_header
from rescale.flink.keyed.namespaces import is_of_timers, serializer_of
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.state_meta_info import SerializerKey, StateMetaInfo
from rescale.snapshot.model import Changelog


class ReadChangelog(NamedTuple):
    """A changelog without its header, and the states that its log describes; None where one could not be read."""

    changelog: Changelog
    logged: tuple[StateMetaInfo, ...] | None


def with_headers(read: Sequence[ReadChangelog], label: str) -> tuple[Changelog, ...]:
    """The changelogs of an operator's subtasks, but for those of subtasks that have no state."""
    key = next((key for one in read for key in _key_serializers(one)), None)
    held: dict[bytes, tuple[bytes, KeyedHeader]] = {}
    try:
        return tuple(_with_header(one, key, held) for one in read if one.changelog.base or one.changelog.changes)
    except SnapshotError as error:
        raise error.located(operator=label) from None


def _with_header(
    read: ReadChangelog, key: SerializerSnapshot | None, held: dict[bytes, tuple[bytes, KeyedHeader]]
) -> Changelog:
    """`held` are the headers of others: of thousands of subtasks most have the same, which is kept once."""
    of_base = [part.parsed for part in read.changelog.base]
    known = [replace(header, compressed=False) for header in of_base if header is not None]
    if key is None or read.logged is None or len(known) < len(of_base):
        return read.changelog
    logged = [KeyedHeader(False, key, (state,)) for state in read.logged]
    merged = merge_keyed_headers([*known, *logged]).header
    written = write_keyed_header(merged)
    header, parsed = held.setdefault(written, (written, merged))
    names = frozenset(state.name for state in read.logged)
    return replace(read.changelog, header=header, parsed=parsed, logged=names)


def _key_serializers(read: ReadChangelog) -> Iterator[SerializerSnapshot]:
    yield from (part.parsed.key_serializer for part in read.changelog.base if part.parsed is not None)
    timers = filter(is_of_timers, read.logged or ())
    yield from (serializer_of(state, SerializerKey.VALUE).nested[0] for state in timers)
