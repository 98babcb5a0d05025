"""What changes make of the state that they follow: applied in order, as Flink does it when it restores.

Nothing of the state is at hand while its changes are applied, so what becomes of a record can be *what it was before*
with something behind it. A value that was merged out of several needs the job's own function
(`InternalMergingState.mergeNamespaces`); mostly the job sets the merged value right after that, and nobody needs to
know.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rescale.errors import SnapshotError, UnsupportedError
from rescale.flink.advice import MATERIALISED
from rescale.flink.keyed.changelog.change_layouts import ChangeLayout
from rescale.flink.keyed.changelog.logged_states import Operation
from rescale.flink.keyed.changelog.parsed_changes import Change
from rescale.flink.keyed.heap.heap_entries import EntryKind
from rescale.flink.keys.java_hash import walk_row
from rescale.flink.serializers.program import Program

_DELIMITER = b","
"""`ListDelimitedSerializer`."""

_NOT_NULL, _NULL = b"\0", b"\1"
"""In front of a value of a map."""

_COUNT_SIZE = 4


class Before(NamedTuple):
    """In place of a value: what the record with this key was before the changes."""

    key: bytes


class Became(NamedTuple):
    """What a record is after all changes: its parts one behind the other, none of them if it is no more."""

    key_group: int
    parts: list[bytes | Before]


class ReplayedState:
    """The changes of one state: what `became` of records by their keys, without key groups.

    All other records whose keys begin with one of `cleared` are no more.
    """

    def __init__(self, layout: ChangeLayout) -> None:
        self.layout = layout
        self.became: dict[bytes, Became] = {}
        self.cleared: set[bytes] = set()
        self._items: dict[bytes, set[bytes]] = defaultdict(set)

    def apply(self, change: Change) -> None:
        """`SnapshotError` and `UnsupportedError` name the state."""
        match self.layout.kind:
            case EntryKind.ELEMENT:
                self._apply_to_timers(change)
            case EntryKind.MAP:
                self._apply_to_map(change)
            case _:
                self._apply_to_value(change)

    def value(self, parts: Sequence[bytes]) -> bytes | None:
        """Of a record of these parts, None if there are none; `UnsupportedError` where only the job can merge them."""
        if not parts:
            return None
        if self.layout.kind is EntryKind.LIST:
            return _DELIMITER.join(parts)
        if len(parts) > 1:
            raise UnsupportedError(
                "an entry of the changelog merges namespaces, which takes the job's own function",
                state=self.layout.state.name,
                expected="one of them with a value at most, or the merged value behind it",
                found=f"{Operation.MERGE_NS.name} of {len(parts)} values",
                advice=MATERIALISED,
            )
        return parts[0]

    def _apply_to_value(self, change: Change) -> None:
        scope = self._scope(change.key, change.namespace)
        match change.operation:
            case Operation.CLEAR:
                self._put(change, scope)
            case Operation.SET | Operation.SET_INTERNAL:
                self._put(change, scope, *self._values(change))
            case Operation.ADD:
                self._of(change, scope).extend(self._values(change))
            case Operation.ADD_ELEMENT:
                self._of(change, scope).append(change.payload)
            case _:
                merged = list(self._merged(change))
                parts = [part for one in merged for part in self._of(change, one)]
                for one in merged:
                    self._put(change, one)
                self._put(change, scope, *parts)

    def _put(self, change: Change, key: bytes, *parts: bytes | Before) -> None:
        self.became[key] = Became(change.key_group, list(parts))

    def _of(self, change: Change, key: bytes) -> list[bytes | Before]:
        """The parts of a record, to be added to."""
        if key not in self.became:
            self._put(change, key, Before(key))
        return self.became[key].parts

    def _merged(self, change: Change) -> Iterator[bytes]:
        """The keys of what is merged, first that of the target, which stands in the payload, too.

        Payload: target { number:i32 } source*
        """
        payload, namespace = change.payload, self.layout.namespace
        yield self._scope(change.key, change.namespace)
        (at,) = self._ends(change, namespace, 0, 1)
        number = self._count(change, at)
        begin = at + _COUNT_SIZE
        for end in self._ends(change, namespace, begin, number):
            yield self._scope(change.key, payload[begin:end])
            begin = end
        self._check_end(change, begin)

    def _values(self, change: Change) -> tuple[bytes, ...]:
        """Of a payload that is a whole value: of a list its elements (`ListSerializer`)."""
        if self.layout.kind is not EntryKind.LIST:
            return (change.payload,)
        number, begin = self._count(change, 0), _COUNT_SIZE
        if number == 1:
            return (change.payload[begin:],)
        values = []
        for end in self._ends(change, self.layout.first, begin, number):
            values.append(change.payload[begin:end])
            begin = end
        self._check_end(change, begin)
        return tuple(values)

    def _apply_to_map(self, change: Change) -> None:
        scope = self._scope(change.key, change.namespace)
        match change.operation:
            case Operation.CLEAR:
                for key in self._items.pop(scope, ()):
                    del self.became[key]
                self.cleared.add(scope)
            case Operation.REMOVE_ELEMENT:
                self._put_item(change, scope, change.payload)
            case Operation.ADD:
                for user_key, value in self._added_items(change):
                    self._put_item(change, scope, user_key, value)
            case _:
                (end,) = self._ends(change, self.layout.first, 0, 1)
                self._put_item(change, scope, change.payload[:end], _NOT_NULL + change.payload[end:])

    def _put_item(self, change: Change, scope: bytes, user_key: bytes, *parts: bytes) -> None:
        key = scope + user_key
        self._put(change, key, *parts)
        self._items[scope].add(key)

    def _added_items(self, change: Change) -> Iterator[tuple[bytes, bytes]]:
        """(user key, value with the flag in front) of a payload that is a map (`MapSerializer`)."""
        payload, number, at = change.payload, self._count(change, 0), _COUNT_SIZE
        for _ in range(number):
            (flag,) = self._ends(change, self.layout.first, at, 1)
            user_key, end = payload[at:flag], flag + 1
            if payload[flag:end] == _NOT_NULL:
                (end,) = [len(payload)] if number == 1 else self._ends(change, self.layout.second, end, 1)
            elif payload[flag:end] != _NULL:
                raise self._damaged(change, "a flag that cannot be")
            yield user_key, payload[flag:end]
            at = end
        self._check_end(change, at)

    def _apply_to_timers(self, change: Change) -> None:
        payload = change.payload
        if change.operation is Operation.REMOVE_ELEMENT:
            self._put(change, payload)
            return
        begin = _COUNT_SIZE
        for end in self._ends(change, self.layout.first, begin, self._count(change, 0)):
            self._put(change, payload[begin:end], b"")
            begin = end
        self._check_end(change, begin)

    def _scope(self, key: bytes, namespace: bytes) -> bytes:
        """A composite key without its key group (`SerializedCompositeKeyBuilder`)."""
        if not self.layout.ambiguous:
            return key + namespace
        return b"".join((key, _length(len(key)), namespace, _length(len(namespace))))

    def _count(self, change: Change, at: int) -> int:
        data = change.payload[at : at + _COUNT_SIZE]
        number = int.from_bytes(data, "big", signed=True)
        if len(data) < _COUNT_SIZE or number < 0:
            raise self._damaged(change, f"a count that cannot be: {data.hex()}")
        return number

    def _ends(self, change: Change, program: Program | None, start: int, number: int) -> list[int]:
        """Where so many values end that lie one behind the other from `start` on."""
        if program is None:
            raise UnsupportedError(
                "where one value of a change ends, and the next one begins, is not known",
                state=self.layout.state.name,
                found=f"{number} values of {change.operation.name}",
                advice=MATERIALISED,
            )
        if number > len(change.payload):
            raise self._damaged(change, f"a count that cannot be: {number}")
        ends, wrong = walk_row(program, np.frombuffer(change.payload, np.uint8), start, number)
        if len(ends) < number:
            raise self._damaged(change, f"no {program.name}: {wrong}")
        return [int(end) for end in ends]

    def _check_end(self, change: Change, at: int) -> None:
        if at != len(change.payload):
            raise self._damaged(change, f"{len(change.payload) - at} bytes behind its end")

    def _damaged(self, change: Change, found: str) -> SnapshotError:
        return SnapshotError(
            f"a change of the log is damaged: {change.operation.name} in key group {change.key_group}",
            state=self.layout.state.name,
            found=found,
        )


def _length(size: int) -> bytes:
    """Low byte first, as many as it needs, one at least (`CompositeKeySerializationUtils.writeVariableIntBytes`)."""
    return size.to_bytes(max((size.bit_length() + 7) // 8, 1), "little")
