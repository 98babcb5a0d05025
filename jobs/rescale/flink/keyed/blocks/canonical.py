"""Replaces the state ids in canonical key groups (`FullSnapshotAsyncWriter`), without decoding records.

    stateId:i16  { keyLength:i32 key  valueLength:i32 value  [ nextStateId:u16 ] }*

Bit 0x80 of the first byte of a key means that an id follows the record: the id of the next state, or 0xFFFF at the end
of the key group. A key begins with its key group, whose number never uses bit 0x80.

A key group can be larger than memory, so it is translated in chunks. Between chunks, only the position within a record
and at most four bytes of an unfinished number are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from rescale.text.errors import SnapshotError

_ERROR_TEXTS = (
    "",
    "a state id that is not in the header",
    "an impossible length",
    "bytes after the end of the key group",
)
"""Descriptions of errors, by the codes of `id_loop`."""


class StateIdTranslator:
    """Replaces each state id of a key group by `new_ids[old id]`; the number of bytes stays the same."""

    def __init__(self, new_ids: tuple[int, ...]) -> None:
        self._new_ids = np.array(new_ids, dtype=np.int64)
        self._progress = np.zeros(3, dtype=np.int64)  # all zeros stand for the beginning of the key group
        self._unfinished_number = b""
        self._position = 0

    def feed(self, chunk: bytes | memoryview) -> bytes:
        """Return the translated bytes of a chunk, except up to four bytes at its end, which come with the next chunk.

        Raises `SnapshotError` for broken framing.
        """
        from rescale.flink.keyed.blocks import id_loop

        data = np.frombuffer(bytearray(b"".join((self._unfinished_number, chunk))), dtype=np.uint8)
        walked_bytes, error_code = id_loop.translate_ids(data, self._progress, self._new_ids)
        if error_code != id_loop.FINE:
            raise SnapshotError(
                f"the framing of a key group is broken: {_ERROR_TEXTS[error_code]}",
                offset=self._position + int(walked_bytes),
            )
        translated_data = data.tobytes()
        self._unfinished_number = translated_data[walked_bytes:]
        self._position += int(walked_bytes)
        return translated_data[:walked_bytes]

    def finish(self) -> None:
        """Raise `SnapshotError` unless the key group is complete."""
        from rescale.flink.keyed.blocks import id_loop

        if self._progress[id_loop.PHASE] != id_loop.AT_END or self._unfinished_number:
            raise SnapshotError("a key group ends inside a record", offset=self._position)


def translated_key_group(chunks: Iterable[bytes | memoryview], new_ids: tuple[int, ...]) -> Iterator[bytes]:
    """Yield the bytes of an uncompressed canonical key group, with each state id replaced by `new_ids[old id]`.

    Raises `SnapshotError` for broken framing.
    """
    translator = StateIdTranslator(new_ids)
    yield from map(translator.feed, chunks)
    translator.finish()
