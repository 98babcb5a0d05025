"""How the key groups of a stream are framed, which its handle alone does not say.

Flink's restoring backend knows by itself; the streams of tags 3 and 12 tell by their key groups. They are heap streams,
or those of full checkpoints that RocksDB's backend took before Flink 1.16 (`RocksFullSnapshotStrategy`), which are
canonical.
"""

from __future__ import annotations

from collections.abc import Callable

from rescale.errors import SnapshotError, UnsupportedError
from rescale.flink.keyed.key_group_table import Framing, may_be_canonical
from rescale.flink.metadata.handles import HandleTag, KeyGroupsHandle
from rescale.snapshot.locate import Extent

_MOST_WALKED = 1 << 20

_HEAD = 8
"""Bytes that a key group begins with: its number, and what tells the framings apart."""


def framing_of(handle: KeyGroupsHandle, extent: Extent, read: Callable[[Extent], bytes]) -> Framing:
    """That of the stream at `extent`; `read` gives no bytes of a file that is gone."""
    if handle.tag == HandleTag.SAVEPOINT_KEY_GROUPS or not handle.offsets:
        return Framing.CANONICAL
    last = handle.offsets[-1]
    if min(handle.offsets) <= 0 or last + _HEAD > extent.length:
        return Framing.CANONICAL
    key_group = handle.first_key_group + len(handle.offsets) - 1
    group = extent.part(last, extent.length - last)
    head = read(group.part(0, _HEAD))
    if not head or int.from_bytes(head[:4], "big") != key_group:
        return Framing.CANONICAL
    is_canonical = may_be_canonical(key_group, head) and _has_records(group, key_group, read)
    return Framing.CANONICAL if is_canonical else Framing.HEAP


def _has_records(group: Extent, key_group: int, read: Callable[[Extent], bytes]) -> bool:
    """Whether the bytes of a key group are canonical records, as far as they are looked at."""
    import numpy as np  # who plans seldom needs it

    from rescale.flink.keyed.blocks.records import RecordReader

    data = read(group.part(0, min(group.length, _MOST_WALKED)))
    for max_parallelism in (128, 32768):
        reader = RecordReader(max_parallelism, None)
        numbers, start = np.array([key_group], np.int64), np.zeros(1, np.int64)
        try:
            if sum(map(len, reader.read(numbers, start, [data], whole=len(data) == group.length))):
                return True
        except (SnapshotError, UnsupportedError):
            continue
    return False
