"""Parser of changes: splits many changes at a time into key, namespace and payload.

If the hash of keys is known, the parser checks that each change is logged under the key group of its key. Only then may
the changes of some key groups be replayed without the changes of other key groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rescale.flink.advice import MATERIALISE_CHANGELOG
from rescale.flink.arrays import Bytes, Longs
from rescale.flink.keyed.changelog.change_layouts import ChangeLayout
from rescale.flink.keyed.changelog.logged_states import CHANGE_HEAD_SIZE, Operation, operation_name
from rescale.flink.keyed.heap.heap_entries import EntryKind
from rescale.flink.keyed.timers.heap_timers import TIME_SIZE
from rescale.flink.keys.java_hash import key_groups_of_hashes, walk_keys
from rescale.flink.serializers.program import Program
from rescale.text.errors import SnapshotError, UnsupportedError


class Change(NamedTuple):
    """A change to the state `state_id` of the header. The payload of a timer contains its key and namespace."""

    state_id: int
    key_group: int
    operation: Operation
    key: bytes
    namespace: bytes
    payload: bytes


class RawChange(NamedTuple):
    """A change as logged: `data` begins with the operation, and `state_id` is the id in the header."""

    state_id: int
    key_group: int
    data: bytes


@dataclass(frozen=True)
class _ChangeParts:
    """Starts and ends of the keys of all changes to a state, and the ends of their namespaces."""

    key_starts: Longs
    key_ends: Longs
    namespace_ends: Longs


def parsed_changes(
    changes: Sequence[RawChange], layouts: Mapping[int, ChangeLayout], max_parallelism: int
) -> list[Change]:
    """Return the parsed changes in order; `layouts` has a layout for each changed state, by id.

    Raises `UnsupportedError` for an operation that is unknown for the type of state, and `SnapshotError` for a damaged
    change or one under a wrong key group.
    """
    data = b"".join(change.data for change in changes)
    limits = np.cumsum([len(change.data) for change in changes], dtype=np.int64)
    starts = limits - np.array([len(change.data) for change in changes], np.int64)
    state_ids = np.array([change.state_id for change in changes], np.int64)
    key_groups = np.array([change.key_group for change in changes], np.int64)
    change_bytes = np.frombuffer(data, np.uint8)
    key_starts, key_ends, namespace_ends = (np.empty(len(changes), np.int64) for _ in range(3))
    for state_id, layout in layouts.items():
        indices = np.flatnonzero(state_ids == state_id)
        _check_operations(layout, change_bytes[starts[indices]])
        parts = _find_parts(layout, change_bytes, starts[indices], limits[indices])
        _check_key_groups(layout, change_bytes, parts, limits[indices], key_groups[indices], max_parallelism)
        key_starts[indices], key_ends[indices], namespace_ends[indices] = (
            parts.key_starts,
            parts.key_ends,
            parts.namespace_ends,
        )
    columns = (starts, limits, key_starts, key_ends, namespace_ends)
    return [
        Change(
            change.state_id,
            change.key_group,
            Operation(data[start]),
            data[key_start:key_end],
            data[key_end:namespace_end],
            data[namespace_end:limit],
        )
        for change, start, limit, key_start, key_end, namespace_end in zip(
            changes, *(column.tolist() for column in columns), strict=True
        )
    ]


def _find_parts(layout: ChangeLayout, data: Bytes, starts: Longs, limits: Longs) -> _ChangeParts:
    begins = starts + CHANGE_HEAD_SIZE
    if layout.kind is EntryKind.QUEUE_ELEMENT:
        return _ChangeParts(begins, begins, begins)
    key_ends = _ends(layout, layout.key_program, "key", data, begins, limits)
    namespace_ends = _ends(layout, layout.namespace_program, "namespace", data, key_ends, limits)
    return _ChangeParts(begins, key_ends, namespace_ends)


def _ends(layout: ChangeLayout, program: Program, what: str, data: Bytes, begins: Longs, limits: Longs) -> Longs:
    walked_keys = walk_keys(program, data, begins, limits)
    first_error = walked_keys.first_error()
    if first_error is not None:
        raise SnapshotError(
            f"the {what} of a change cannot be read as a {program.name}", state=layout.state.name, found=first_error[1]
        )
    return walked_keys.ends


def _check_operations(layout: ChangeLayout, operation_codes: Bytes) -> None:
    for code in np.unique(operation_codes).tolist():
        if code not in layout.operations:
            raise UnsupportedError(
                "a change has an unknown operation",
                state=layout.state.name,
                expected=f"an operation of a {layout.state.state_type} state: "
                + ", ".join(operation.name for operation in sorted(layout.operations)),
                found=operation_name(code),
                advice=MATERIALISE_CHANGELOG,
            )


def _check_key_groups(
    layout: ChangeLayout, data: Bytes, parts: _ChangeParts, limits: Longs, key_groups: Longs, max_parallelism: int
) -> None:
    """Raise `SnapshotError` for a change under a wrong key group.

    All timers of one change have the same key, so the first timer is checked.
    """
    if not layout.key_program.hashable:
        return
    begins = parts.key_starts
    if layout.kind is EntryKind.QUEUE_ELEMENT:
        is_added_element = data[parts.key_starts - CHANGE_HEAD_SIZE] == Operation.ADD_ELEMENT
        begins = begins + TIME_SIZE + np.where(is_added_element, _COUNT_SIZE, 0)
    walked_keys = walk_keys(layout.key_program, data, np.minimum(begins, limits), limits)
    hash_codes = walked_keys.hash_codes
    if hash_codes is None:
        return
    is_wrong = (key_groups_of_hashes(hash_codes, max_parallelism) != key_groups) | (walked_keys.error_codes != 0)
    if is_wrong.any():
        index = int(np.argmax(is_wrong))
        raise SnapshotError(
            "a change is not logged under the key group of its key",
            state=layout.state.name,
            expected=f"key group {key_groups_of_hashes(hash_codes[index : index + 1], max_parallelism)[0]}",
            found=f"key group {key_groups[index]}",
            advice=MATERIALISE_CHANGELOG,
        )


_COUNT_SIZE = 4
