"""Replay of the changes of a state in order, as Flink does at restore.

The replay does not see the base records, so a new value can refer to the *old value* of a base record, and append to
it. Merging several values needs the job's own function (`InternalMergingState.mergeNamespaces`). Usually, the job sets
the merged value right after the merge, so the merge itself has no effect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rescale.flink.advice import MATERIALISE_CHANGELOG
from rescale.flink.keyed.changelog.change_layouts import ChangeLayout
from rescale.flink.keyed.changelog.logged_states import Operation
from rescale.flink.keyed.changelog.parsed_changes import Change
from rescale.flink.keyed.heap.heap_entries import EntryKind
from rescale.flink.keys.java_hash import walk_values
from rescale.flink.serializers.program import Program
from rescale.text.errors import SnapshotError, UnsupportedError

_DELIMITER = b","
"""Delimiter of `ListDelimitedSerializer`."""

_NOT_NULL, _NULL = b"\0", b"\1"
"""Null flags in front of a value of a map."""

_COUNT_SIZE = 4


class OldValue(NamedTuple):
    """Reference to the value of the base record with this key."""

    key: bytes


class NewValue(NamedTuple):
    """New value of a record after all changes, made of `parts`; without parts, the record is deleted."""

    key_group: int
    parts: list[bytes | OldValue]


class ReplayedState:
    """Result of the changes to a state.

    `new_values` has the new values by composite key without key group. Base records without a new value are deleted if
    their keys begin with one of `cleared_prefixes`.
    """

    def __init__(self, layout: ChangeLayout) -> None:
        self.layout = layout
        self.new_values: dict[bytes, NewValue] = {}
        self.cleared_prefixes: set[bytes] = set()
        self._keys_by_prefix: dict[bytes, set[bytes]] = defaultdict(set)

    def apply(self, change: Change) -> None:
        """Apply a change.

        Raises `SnapshotError` for a damaged change, and `UnsupportedError` if the end of a value in it is unknown; both
        name the state.
        """
        match self.layout.kind:
            case EntryKind.QUEUE_ELEMENT:
                self._apply_to_timers(change)
            case EntryKind.MAP:
                self._apply_to_map(change)
            case _:
                self._apply_to_value(change)

    def value(self, parts: Sequence[bytes]) -> bytes | None:
        """Return the value made of these parts, None without parts.

        Raises `UnsupportedError` if only the job's own function can merge the parts.
        """
        if not parts:
            return None
        if self.layout.kind is EntryKind.LIST:
            return _DELIMITER.join(parts)
        if len(parts) > 1:
            raise UnsupportedError(
                "a change merges the values of several namespaces, which needs the job's own function",
                state=self.layout.state.name,
                expected="at most one namespace with a value, or a later change that sets the merged value",
                found=f"{Operation.MERGE_NS.name} of {len(parts)} values",
                advice=MATERIALISE_CHANGELOG,
            )
        return parts[0]

    def _apply_to_value(self, change: Change) -> None:
        composite_key = self._composite_key(change.key, change.namespace)
        match change.operation:
            case Operation.CLEAR:
                self._put(change, composite_key)
            case Operation.SET | Operation.SET_INTERNAL:
                self._put(change, composite_key, *self._payload_values(change))
            case Operation.ADD:
                self._parts(change, composite_key).extend(self._payload_values(change))
            case Operation.ADD_ELEMENT:
                self._parts(change, composite_key).append(change.payload)
            case _:
                merged_keys = list(self._merged_keys(change))
                parts = [part for key in merged_keys for part in self._parts(change, key)]
                for key in merged_keys:
                    self._put(change, key)
                self._put(change, composite_key, *parts)

    def _put(self, change: Change, key: bytes, *parts: bytes | OldValue) -> None:
        self.new_values[key] = NewValue(change.key_group, list(parts))

    def _parts(self, change: Change, key: bytes) -> list[bytes | OldValue]:
        """Return the parts of a record's new value; callers append to this list."""
        if key not in self.new_values:
            self._put(change, key, OldValue(key))
        return self.new_values[key].parts

    def _merged_keys(self, change: Change) -> Iterator[bytes]:
        """Yield the composite keys of the merged namespaces, the key of the target first.

        The payload is `target number:i32 source*`; the target is also the namespace of the change.
        """
        payload, namespace = change.payload, self.layout.namespace_program
        yield self._composite_key(change.key, change.namespace)
        (target_end,) = self._ends(change, namespace, 0, 1)
        source_count = self._read_count(change, target_end)
        begin = target_end + _COUNT_SIZE
        for end in self._ends(change, namespace, begin, source_count):
            yield self._composite_key(change.key, payload[begin:end])
            begin = end
        self._check_end(change, begin)

    def _payload_values(self, change: Change) -> tuple[bytes, ...]:
        """Return the values in a payload: the elements of a list (`ListSerializer`), or else the payload itself."""
        if self.layout.kind is not EntryKind.LIST:
            return (change.payload,)
        element_count, begin = self._read_count(change, 0), _COUNT_SIZE
        if element_count == 1:
            return (change.payload[begin:],)
        payload_values = []
        for end in self._ends(change, self.layout.first_program, begin, element_count):
            payload_values.append(change.payload[begin:end])
            begin = end
        self._check_end(change, begin)
        return tuple(payload_values)

    def _apply_to_map(self, change: Change) -> None:
        prefix = self._composite_key(change.key, change.namespace)
        match change.operation:
            case Operation.CLEAR:
                for key in self._keys_by_prefix.pop(prefix, ()):
                    del self.new_values[key]
                self.cleared_prefixes.add(prefix)
            case Operation.REMOVE_ELEMENT:
                self._put_item(change, prefix, change.payload)
            case Operation.ADD:
                for user_key, value in self._added_items(change):
                    self._put_item(change, prefix, user_key, value)
            case _:
                (end,) = self._ends(change, self.layout.first_program, 0, 1)
                self._put_item(change, prefix, change.payload[:end], _NOT_NULL + change.payload[end:])

    def _put_item(self, change: Change, prefix: bytes, user_key: bytes, *parts: bytes) -> None:
        key = prefix + user_key
        self._put(change, key, *parts)
        self._keys_by_prefix[prefix].add(key)

    def _added_items(self, change: Change) -> Iterator[tuple[bytes, bytes]]:
        """Yield (user key, value with its flag) of the items in a payload that is a map (`MapSerializer`)."""
        payload, item_count, at = change.payload, self._read_count(change, 0), _COUNT_SIZE
        for _ in range(item_count):
            (flag_start,) = self._ends(change, self.layout.first_program, at, 1)
            user_key, end = payload[at:flag_start], flag_start + 1
            if payload[flag_start:end] == _NOT_NULL:
                (end,) = [len(payload)] if item_count == 1 else self._ends(change, self.layout.second_program, end, 1)
            elif payload[flag_start:end] != _NULL:
                raise self._damaged_log_error(change, f"{payload[flag_start:end].hex() or 'nothing'} as a null flag")
            yield user_key, payload[flag_start:end]
            at = end
        self._check_end(change, at)

    def _apply_to_timers(self, change: Change) -> None:
        payload = change.payload
        if change.operation is Operation.REMOVE_ELEMENT:
            self._put(change, payload)
            return
        begin = _COUNT_SIZE
        for end in self._ends(change, self.layout.first_program, begin, self._read_count(change, 0)):
            self._put(change, payload[begin:end], b"")
            begin = end
        self._check_end(change, begin)

    def _composite_key(self, key: bytes, namespace: bytes) -> bytes:
        """Return a composite key without its key group (`SerializedCompositeKeyBuilder`)."""
        if not self.layout.has_lengths:
            return key + namespace
        return b"".join((key, _length_bytes(len(key)), namespace, _length_bytes(len(namespace))))

    def _read_count(self, change: Change, at: int) -> int:
        data = change.payload[at : at + _COUNT_SIZE]
        count = int.from_bytes(data, "big", signed=True)
        if len(data) < _COUNT_SIZE or count < 0:
            raise self._damaged_log_error(change, f"an impossible count: {data.hex()}")
        return count

    def _ends(self, change: Change, program: Program | None, start: int, value_count: int) -> list[int]:
        """Return the ends of `value_count` values that lie end to end from `start` on."""
        if program is None:
            raise UnsupportedError(
                "the values of a change cannot be delimited, because their type is unknown",
                state=self.layout.state.name,
                found=f"{value_count} values of {change.operation.name}",
                advice=MATERIALISE_CHANGELOG,
            )
        if value_count > len(change.payload):
            raise self._damaged_log_error(change, f"an impossible count: {value_count}")
        ends, error_text = walk_values(program, np.frombuffer(change.payload, np.uint8), start, value_count)
        if len(ends) < value_count:
            raise self._damaged_log_error(change, f"not a {program.name}: {error_text}")
        return [int(end) for end in ends]

    def _check_end(self, change: Change, at: int) -> None:
        if at != len(change.payload):
            raise self._damaged_log_error(change, f"{len(change.payload) - at} unexpected bytes at the end")

    def _damaged_log_error(self, change: Change, content: str) -> SnapshotError:
        return SnapshotError(
            f"a change in the log is damaged: {change.operation.name} in key group {change.key_group}",
            state=self.layout.state.name,
            found=content,
        )


def _length_bytes(size: int) -> bytes:
    """Return a little-endian length in as few bytes as possible (`CompositeKeySerializationUtils`)."""
    return size.to_bytes(max((size.bit_length() + 7) // 8, 1), "little")
