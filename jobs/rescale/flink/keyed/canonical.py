"""Canonical framing (`FullSnapshotAsyncWriter`): the records of a key group, walked without understanding them.

    stateId:i16  { keyLength:i32 key  valueLength:i32 value  [ nextStateId:u16 ] }*

Bit 0x80 of the first byte of a key says that an id follows the record: of the next state, or 0xFFFF at the end of the
group. It can never be part of the key group that every key begins with.

A group can be larger than memory, so it is walked in chunks; all that is carried from one to the next is where in a
record the walk stands, and at most four bytes of an unfinished number.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rescale.errors import SnapshotError
from rescale.flink.keyed.record_marks import END_OF_GROUP, FLAG

_AT_ID, _AT_KEY_LENGTH, _IN_KEY, _AT_VALUE_LENGTH, _IN_VALUE, _AT_NEXT_ID, _AT_END = range(7)
_FINE, _BAD_ID, _BAD_LENGTH, _BEHIND_THE_END = range(4)
_PHASE, _REMAINING, _FLAGGED = range(3)

_WRONG = {
    _BAD_ID: "a state id that the header does not know",
    _BAD_LENGTH: "a length that cannot be",
    _BEHIND_THE_END: "bytes behind the end of the key group",
}


class StateIdTranslator:
    """Gives every state id of one key group its new number; `table[old id]` is the new id.

    The number of bytes stays the same.
    """

    def __init__(self, table: tuple[int, ...]) -> None:
        self._table = np.array(table, dtype=np.int64)
        self._state = np.array([_AT_ID, 0, 0], dtype=np.int64)
        self._carried = b""
        self._position = 0

    def feed(self, chunk: bytes | memoryview) -> bytes:
        """Translated bytes; up to four fewer than were fed so far. `SnapshotError` if the framing is broken."""
        data = np.frombuffer(bytearray(b"".join((self._carried, chunk))), dtype=np.uint8)
        walked, wrong = _walker()(data, self._state, self._table)
        if wrong != _FINE:
            raise SnapshotError(
                f"the framing of a key group is broken: {_WRONG[wrong]}", offset=self._position + int(walked)
            )
        translated = data.tobytes()
        self._carried = translated[walked:]
        self._position += int(walked)
        return translated[:walked]

    def finish(self) -> None:
        """`SnapshotError` unless the group has ended just here."""
        if self._state[_PHASE] != _AT_END or self._carried:
            raise SnapshotError("a key group ends inside a record", offset=self._position)


@cache
def _walker() -> Any:
    """Compiled when first needed, and kept on disk for the processes that follow."""
    import numba  # most of a second for every process, and few need it

    return numba.njit(cache=True)(_walk)


def _walk(data: npt.NDArray[np.uint8], state: npt.NDArray[np.int64], table: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Translates the ids in `data` in place, from `state` on; returns (bytes walked, what is wrong)."""
    at, end = 0, len(data)
    phase, remaining, flagged = state[_PHASE], state[_REMAINING], state[_FLAGGED]
    while at < end:
        if phase in (_IN_KEY, _IN_VALUE):
            step = min(remaining, end - at)
            at += step
            remaining -= step
            if remaining:
                break
            after_value = _AT_NEXT_ID if flagged else _AT_KEY_LENGTH
            phase = _AT_VALUE_LENGTH if phase == _IN_KEY else after_value
        elif phase in (_AT_KEY_LENGTH, _AT_VALUE_LENGTH):
            # A key's first byte is looked at together with its length.
            if end - at < (5 if phase == _AT_KEY_LENGTH else 4):
                break
            length = (np.int64(data[at]) << 24 | np.int64(data[at + 1]) << 16 | np.int64(data[at + 2]) << 8) | np.int64(
                data[at + 3]
            )
            if length > 0x7FFFFFFF or (phase == _AT_KEY_LENGTH and length == 0):
                return at, _BAD_LENGTH
            at += 4
            remaining = length
            if phase == _AT_KEY_LENGTH:
                flagged = np.int64(data[at]) & FLAG
                phase = _IN_KEY
            elif length:
                phase = _IN_VALUE
            else:
                phase = _AT_NEXT_ID if flagged else _AT_KEY_LENGTH
        elif phase == _AT_END:
            return at, _BEHIND_THE_END
        else:
            if end - at < 2:
                break
            old = np.int64(data[at]) << 8 | np.int64(data[at + 1])
            if phase == _AT_NEXT_ID and old == END_OF_GROUP:
                phase = _AT_END
            elif old >= len(table):
                return at, _BAD_ID
            else:
                data[at], data[at + 1] = table[old] >> 8, table[old] & 0xFF
                phase = _AT_KEY_LENGTH
            at += 2
    state[_PHASE], state[_REMAINING], state[_FLAGGED] = phase, remaining, flagged
    return at, _FINE
