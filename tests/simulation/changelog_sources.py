"""Sources with keyed state in a changelog: changes over materialised state of the heap or of RocksDB."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random

from rescale.flink.metadata.checkpoint_metadata import OperatorState, Subtask, SubtaskState
from rescale.flink.metadata.handles import (
    ChangelogDelta,
    ChangelogHandle,
    ChangelogStreamHandle,
    HandleTag,
    IncrementalHandle,
    InlineStream,
    InMemoryChangelogHandle,
    KeyGroupsHandle,
    RelativeFileStream,
    StateChange,
    Stream,
)
from rescale.flink.metadata.reader import read_metadata
from rescale.flink.metadata.writer import write_metadata
from simulation.changelogs import Change
from simulation.flinks_rules import hash_code_of_long, key_group_of_code
from simulation.native_sources import KEYED_STATES, heap_source, keyed_info, rocksdb_source
from simulation.rows import Kind, keyed_rows, states_in
from simulation.sources import Source, store_stream

_CHANGELOG_SHARE = 0.008
"""Share of all histories whose source has a changelog."""

_CLEAR, _SET, _ADD, _ADD_ELEMENT, _METADATA = 0, 1, 3, 5, 8
_METADATA_GROUP = -1
_FIRST_STATE_ID = 40
_SOURCE_COUNT = 12


def draw_changelog(seed: int) -> Source | None:
    """Draw a source with a changelog; most seeds give None.

    The draw uses a random generator of its own, so that histories without a changelog do not change.
    """
    random = Random(f"changelog {seed}")
    return _changelog_source(random.randrange(_SOURCE_COUNT)) if random.random() < _CHANGELOG_SHARE else None


@cache
def _changelog_source(number: int) -> Source:
    random = Random(f"changelog source {number}")
    base = heap_source(number) if number % 3 == 0 else rocksdb_source(number)
    objects = dict(base.objects)
    metadata = read_metadata(objects["_metadata"], "_metadata")
    states = list(KEYED_STATES) if base.kind is Kind.ROCKSDB else ["counts", "latest"]
    operators = tuple(
        replace(operator, subtasks=_with_changelogs(random, objects, operator, states))
        if any(map(_keyed_handle, operator.subtasks))
        else operator
        for operator in metadata.operators
    )
    objects["_metadata"] = write_metadata(replace(metadata, operators=operators))
    return replace(base, name=f"{base.name}, under a changelog", objects=objects, is_changelog=True)


def _with_changelogs(
    random: Random, objects: dict[str, bytes], operator: OperatorState, states: Sequence[str]
) -> tuple[Subtask, ...]:
    """Return the subtasks with changelogs.

    The changes of a subtask lie in `_metadata`, in a file of the subtask, or in one file of all subtasks.
    """
    is_shared = random.random() < 0.5
    files: dict[str, bytearray] = defaultdict(lambda: bytearray(b"\0"))  # no compression
    logs: list[list[tuple[str, int, list[Change]]]] = []
    for subtask in operator.subtasks:
        name = "log" if is_shared else f"log-{subtask.index}"
        logs.append([])
        for change_set in _change_sets(random, objects, operator, subtask, states):
            if random.random() < 0.3:
                logs[-1].append(("", 0, change_set))
            else:
                logs[-1].append((name, len(files[name]) - 1, change_set))
                files[name] += _change_set_bytes(change_set)
    streams = {name: store_stream(random, objects, name, bytes(data)) for name, data in files.items()}
    return tuple(
        _with_log(subtask, [_delta(subtask, streams.get(name), offset, change_set) for name, offset, change_set in log])
        for subtask, log in zip(operator.subtasks, logs, strict=True)
    )


def _with_log(subtask: Subtask, deltas: Sequence[ChangelogDelta]) -> Subtask:
    base = _keyed_handle(subtask)
    assert base is not None
    first, key_group_count = _key_group_range(base)
    handle = ChangelogHandle(
        HandleTag.CHANGELOG_V2, first, key_group_count, 0, (base,), tuple(deltas), 3, 7, f"changelog-{subtask.index}"
    )
    return replace(subtask, state=replace(subtask.state or SubtaskState(), managed_keyed=handle))


def _delta(subtask: Subtask, stream: Stream | None, offset: int, change_set: Sequence[Change]) -> ChangelogDelta:
    base = _keyed_handle(subtask)
    assert base is not None
    first, key_group_count = _key_group_range(base)
    if stream is None:
        changes = tuple(StateChange(*change) for change in change_set)
        return InMemoryChangelogHandle(first, key_group_count, 0, len(change_set), changes, "in memory")
    size = len(_change_set_bytes(change_set))
    tag = HandleTag.CHANGELOG_STREAM_V2
    return ChangelogStreamHandle(
        tag, first, key_group_count, ((offset, stream),), size, size, "in a file", "filesystem"
    )


def _change_sets(
    random: Random, objects: dict[str, bytes], operator: OperatorState, subtask: Subtask, states: Sequence[str]
) -> list[list[Change]]:
    """Return the change sets of a subtask; the description of a state comes before its first change."""
    base = _keyed_handle(subtask)
    assert base is not None
    materialised = keyed_rows(subtask.index, base, operator, lambda stream: _content(objects, stream))
    old_keys = [(row[1], row[2]) for row, _ in materialised.rows if row[1] in materialised.key_groups]
    new_keys = [(key_group_of_code(hash_code_of_long(key), operator.max_parallelism), key) for key in range(-60, 60)]
    keys = [
        *old_keys,
        *((group, struct.pack(">q", key) + b"\0") for group, key in new_keys if group in materialised.key_groups),
    ]
    changed_states = states if random.random() < 0.5 else states_in(materialised.header)
    change_sets: list[list[Change]] = []
    described_states: set[str] = set()
    for _ in range(random.choice((0, 1, 1, 3))):
        change_sets.append([])
        for _ in range(random.choice((1, 5, 30)) if keys else 0):
            state = random.choice(changed_states)
            state_id = _FIRST_STATE_ID + states.index(state)
            if state not in described_states:
                described_states.add(state)
                change_sets[-1].append((_METADATA_GROUP, _description(state, state_id)))
            group, key = random.choice(keys)
            operation, payload = _draw_operation(random, state)
            change_sets[-1].append((group, struct.pack(">Bh", operation, state_id) + key + payload))
    return change_sets


def _draw_operation(random: Random, state: str) -> tuple[int, bytes]:
    """Draw an operation, and the bytes that follow the key."""
    if random.random() < 0.2:
        return _CLEAR, b""
    if KEYED_STATES[state] == "VALUE":
        return _SET, random.randbytes(8)
    elements = [bytes(random.randrange(97, 123) for _ in range(8)) for _ in range(random.randint(1, 3))]
    operation = random.choice((_SET, _ADD, _ADD_ELEMENT))
    if operation == _ADD_ELEMENT:
        return operation, elements[0]
    return operation, struct.pack(">i", len(elements)) + b"".join(elements)


def _description(state: str, state_id: int) -> bytes:
    """Return the description of a state without a TTL and without a default value."""
    return struct.pack(">Bi", _METADATA, 6) + keyed_info(state) + b"\0\0" + struct.pack(">hB", state_id, 0)


def _change_set_bytes(changes: Sequence[Change]) -> bytes:
    """Return a change set: descriptions of states, then changes by key group (`StateChangeFormat`)."""
    by_group: dict[int, list[bytes]] = defaultdict(list)
    for group, change in changes:
        by_group[group].append(change)
    data = struct.pack(">i", len(by_group))
    for group in sorted(by_group):
        data += struct.pack(">ii", len(by_group[group]), group)
        data += b"".join(struct.pack(">i", len(change)) + change for change in by_group[group])
    return data


def _key_group_range(handle: KeyGroupsHandle | IncrementalHandle) -> tuple[int, int]:
    return handle.first_key_group, len(handle.offsets) if isinstance(
        handle, KeyGroupsHandle
    ) else handle.key_group_count


def _keyed_handle(subtask: Subtask) -> KeyGroupsHandle | IncrementalHandle | None:
    handle = subtask.state.managed_keyed if subtask.state is not None else None
    return handle if isinstance(handle, KeyGroupsHandle | IncrementalHandle) else None


def _content(objects: dict[str, bytes], stream: Stream) -> bytes:
    if isinstance(stream, InlineStream):
        return stream.data
    assert isinstance(stream, RelativeFileStream)
    return objects[stream.path]
