"""Canonical framing (`FullSnapshotAsyncWriter`): the records of a key group, walked without understanding them.

    stateId:i16  { keyLength:i32 key  valueLength:i32 value  [ nextStateId:u16 ] }*

Bit 0x80 of the first byte of a key says that an id follows the record: of the next state, or 0xFFFF at the end of the
group. It can never be part of the key group that every key begins with.

A group can be larger than memory, so it is walked in chunks; all that is carried from one to the next is where in a
record the walk stands, and at most four bytes of an unfinished number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from rescale.errors import SnapshotError

_WRONG = (
    "",
    "a state id that the header does not know",
    "a length that cannot be",
    "bytes behind the end of the key group",
)
"""By the numbers of `id_loop`."""


class StateIdTranslator:
    """Gives every state id of one key group its new number; `table[old id]` is the new id.

    The number of bytes stays the same.
    """

    def __init__(self, table: tuple[int, ...]) -> None:
        self._table = np.array(table, dtype=np.int64)
        self._state = np.zeros(3, dtype=np.int64)  # before the key group
        self._carried = b""
        self._position = 0

    def feed(self, chunk: bytes | memoryview) -> bytes:
        """Translated bytes; up to four fewer than were fed so far. `SnapshotError` if the framing is broken."""
        from rescale.flink.keyed.blocks import id_loop

        data = np.frombuffer(bytearray(b"".join((self._carried, chunk))), dtype=np.uint8)
        walked, wrong = id_loop.translate_ids(data, self._state, self._table)
        if wrong != id_loop.FINE:
            raise SnapshotError(
                f"the framing of a key group is broken: {_WRONG[wrong]}", offset=self._position + int(walked)
            )
        translated = data.tobytes()
        self._carried = translated[walked:]
        self._position += int(walked)
        return translated[:walked]

    def finish(self) -> None:
        """`SnapshotError` unless the group has ended just here."""
        from rescale.flink.keyed.blocks import id_loop

        if self._state[id_loop.PHASE] != id_loop.AT_END or self._carried:
            raise SnapshotError("a key group ends inside a record", offset=self._position)


def translated(chunks: Iterable[bytes | memoryview], table: tuple[int, ...]) -> Iterator[bytes]:
    """The bytes of one canonical key group, not compressed, with every state id looked up in `table`."""
    translator = StateIdTranslator(table)
    yield from map(translator.feed, chunks)
    translator.finish()
