"""The records of canonical key groups (`FullSnapshotAsyncWriter`), found in buffers: many at a time, never all.

    stateId:i16  { keyLength:i32 key  valueLength:i32 value  [ nextStateId:u16 ] }*

Every key begins with its key group, in one byte up to 128 key groups and in two above
(`CompositeKeySerializationUtils`); bit 0x80 in front says that an id follows the record: of the next state, or 0xFFFF
at the end of the group. What the framing says is checked: a group begins where it should, and holds its own records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from rescale.errors import SnapshotError, UnsupportedError
from rescale.flink.arrays import Bytes, Flags, Longs
from rescale.flink.key_groups import prefix_size
from rescale.flink.keyed.blocks.record_marks import FLAG, ID_SIZE, LARGEST_RECORD

BUFFER_SIZE = 4 * 1024 * 1024
RECORDS_AT_ONCE = 1 << 15
"""Bytes and records that a batch has at most: so few that they stay in a processor's cache, where one loop after the
other finds them. Who sorts batches wants a multiple, for the sake of longer runs."""

MOST_UNKNOWN_STATES = 64
"""Where a serializer that is not known hides how many states there are."""


_WRONG = (
    "",
    "a state id that the header does not know",
    "a length that cannot be",
    "a record of another key group",
    "bytes behind the end of a key group",
    "a key group that is longer than its offsets say",
)
"""By the numbers of `record_walk`."""


@dataclass(frozen=True)
class Records:
    """Records in `data`, an element of each array for each; all of it is overwritten by the records that follow.

    Record i has the key `data[starts[i]:limits[i]]`, without key group but with namespace and user key, then the length
    of its value, and its value up to `ends[i]`. It is of the state `states[i]` in key group `groups[i]`.
    """

    data: Bytes
    starts: Longs
    limits: Longs
    ends: Longs
    states: Longs
    groups: Longs

    def __len__(self) -> int:
        return len(self.starts)

    def only(self, chosen: Flags) -> Records:
        """Those that are chosen, of the same data."""
        columns = (self.starts, self.limits, self.ends, self.states, self.groups)
        return Records(self.data, *(column[chosen] for column in columns))


def framed_size(records: Records, max_parallelism: int) -> int:
    """The bytes of the records in their key groups, with the ids that follow some; the id in front of a group apart."""
    prefix = prefix_size(max_parallelism)
    lengths = int((records.ends - records.starts).sum()) + len(records) * (4 + prefix)
    return lengths + ID_SIZE * int(np.count_nonzero(records.data[records.starts - prefix] & FLAG))


class RecordReader:
    """Finds the records of consecutive key groups, group i being `key_groups[i]` and beginning at `group_starts[i]`.

    The starts count from the first chunk on, and need be known only when a group's first chunk is given. The number of
    states is None where it is not known. Batches have `times` the usual size. Reuse a reader's buffers by reading many
    runs of groups with it.
    """

    def __init__(self, max_parallelism: int, number_of_states: int | None, *, times: int = 1) -> None:
        self._prefix = prefix_size(max_parallelism)
        self._states = MOST_UNKNOWN_STATES if number_of_states is None else number_of_states
        self._states_are_known = number_of_states is not None
        self._buffer = np.empty(times * BUFFER_SIZE, np.uint8)
        self._at_once = times * RECORDS_AT_ONCE
        self._columns = [np.empty(self._at_once, np.int64) for _ in range(5)]

    def read(
        self, key_groups: Longs, group_starts: Longs, chunks: Iterable[bytes | memoryview], *, whole: bool = True
    ) -> Iterator[Records]:
        """All records in order. `SnapshotError` where the framing is broken, with the offset in the run of groups.

        If it is not `whole`, the last group may end anywhere.
        """
        from rescale.flink.keyed.blocks import record_walk

        place = np.array([record_walk.NO_STATE, 0], np.int64)
        origin = filled = 0
        for chunk in _at_the_end(chunks):
            rest = memoryview(chunk or b"")
            while rest or chunk is None:
                taken = min(len(rest), len(self._buffer) - filled)
                self._buffer[filled : filled + taken] = np.frombuffer(rest[:taken], np.uint8)
                filled, rest = filled + taken, rest[taken:]
                if chunk is not None and filled < len(self._buffer):
                    break
                begin = needs = 0
                count = self._at_once
                while count == self._at_once:
                    data = self._buffer[begin:filled]
                    count, walked, wrong, needs = record_walk.walk_records(
                        data, origin, key_groups, group_starts, self._prefix, self._states, place, *self._columns
                    )
                    if count:
                        yield Records(data, *(column[:count] for column in self._columns))
                    begin, origin = begin + walked, origin + walked
                    if wrong == record_walk.BAD_ID and not self._states_are_known:
                        raise _too_many_states(int.from_bytes(data[walked : walked + ID_SIZE].tobytes(), "big"), origin)
                    if wrong:
                        raise SnapshotError(f"the framing of a key group is broken: {_WRONG[wrong]}", offset=origin)
                self._buffer[: filled - begin] = self._buffer[begin:filled]
                filled -= begin
                if chunk is None:
                    break
                self._make_room(needs, origin)
        in_group = place[record_walk.GROUP] != len(key_groups) or place[record_walk.STATE_ID] != record_walk.NO_STATE
        if whole and (filled or in_group):
            raise SnapshotError("a key group ends inside a record", offset=origin)

    def _make_room(self, needs: int, origin: int) -> None:
        """At most doubles the buffer: a length that is damaged costs no memory for bytes that are not there."""
        if needs <= len(self._buffer):
            return
        if len(self._buffer) >= LARGEST_RECORD:
            raise UnsupportedError(
                "a record is larger than can be moved",
                offset=origin,
                expected=f"at most {LARGEST_RECORD} bytes",
                found=f"{needs} bytes",
                advice="change the parallelism only: records are not looked at then",
            )
        larger = np.empty(min(needs, 2 * len(self._buffer), LARGEST_RECORD), np.uint8)
        larger[: len(self._buffer)] = self._buffer
        self._buffer = larger


def _too_many_states(state_id: int, origin: int) -> UnsupportedError:
    return UnsupportedError(
        "a serializer is not known that hides how many states there are, and there are more than can be told apart so",
        offset=origin,
        expected=f"at most {MOST_UNKNOWN_STATES} states",
        found=f"a record of state {state_id}",
        advice="keep the max parallelism: whole key groups are moved then, and records are not looked at",
    )


def _at_the_end(chunks: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview | None]:
    yield from chunks
    yield None
