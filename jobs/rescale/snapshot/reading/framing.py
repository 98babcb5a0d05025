"""Finds out whether the key groups of a stream are in heap or canonical framing; the handle does not always tell.

In Flink the restoring backend knows the framing. Streams whose handles have the tag 3 or 12 are either heap streams, or
full checkpoints of the RocksDB backend before Flink 1.16 (`RocksFullSnapshotStrategy`), which are canonical. Only the
bytes of the key groups tell heap and canonical framing apart.
"""

from __future__ import annotations

from collections.abc import Callable

from rescale.flink.keyed.blocks.record_marks import END_OF_GROUP, ID_SIZE
from rescale.flink.keyed.key_group_table import Framing, may_be_canonical
from rescale.flink.metadata.handles import HandleTag, KeyGroupsHandle
from rescale.snapshot.locate import Extent
from rescale.text.errors import SnapshotError, UnsupportedError

_MOST_WALKED_BYTES = 1 << 20

_HEAD_SIZE = 8
"""Number of bytes that tell the framings apart: a key group begins with its number, and four more bytes are needed."""


def framing_of(handle: KeyGroupsHandle, extent: Extent, read: Callable[[Extent], bytes]) -> Framing:
    """Return the framing of the stream at `extent`; `read` must return no bytes for a missing file."""
    if handle.tag == HandleTag.SAVEPOINT_KEY_GROUPS or not handle.offsets:
        return Framing.CANONICAL
    last_offset = handle.offsets[-1]
    if min(handle.offsets) <= 0 or last_offset + _HEAD_SIZE > extent.length:
        return Framing.CANONICAL
    key_group = handle.first_key_group + len(handle.offsets) - 1
    group = extent.part(last_offset, extent.length - last_offset)
    head = read(group.part(0, _HEAD_SIZE))
    if not head or int.from_bytes(head[:4], "big") != key_group:
        return Framing.CANONICAL
    is_canonical = may_be_canonical(key_group, head) and _has_records(group, key_group, read)
    return Framing.CANONICAL if is_canonical else Framing.HEAP


def _has_records(group: Extent, key_group: int, read: Callable[[Extent], bytes]) -> bool:
    """Return whether a key group begins with canonical records, and ends with the mark of a canonical key group.

    Reads records in the first `_MOST_WALKED_BYTES` bytes. The records alone prove nothing: heap entries may look like a
    small record and the beginning of a huge one.
    """
    import numpy as np  # slow to import, and most plans do not need it

    from rescale.flink.keyed.blocks.records import RecordReader

    if read(group.part(group.length - ID_SIZE, ID_SIZE)) != END_OF_GROUP.to_bytes(ID_SIZE, "big"):
        return False
    data = read(group.part(0, min(group.length, _MOST_WALKED_BYTES)))
    for max_parallelism in (128, 32768):
        reader = RecordReader(max_parallelism, None)
        groups, start = np.array([key_group], np.int64), np.zeros(1, np.int64)
        try:
            if sum(map(len, reader.read(groups, start, [data], is_whole=len(data) == group.length))):
                return True
        except (SnapshotError, UnsupportedError):
            continue
    return False
