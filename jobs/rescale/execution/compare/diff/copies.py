"""Digests broadcast copies without regard to the order of entries: `HeapBroadcastState` writes a HashMap in any order.

    count:i32  { key value }*

Copies whose bytes differ are compared by entry if their serializers are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rescale.execution.compare.diff.differences import BothFiles, Side
from rescale.execution.sources.byte_digests import MODULUS, digest
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.encoding.snappy import decompressed
from rescale.flink.serializers.type_tree import TypeTree
from rescale.flink.serializers.value_format import format_value
from rescale.snapshot.locate import Extent
from rescale.text.errors import SnapshotError

LARGEST_COPY_BYTES = 64 * 1024 * 1024
"""Largest copy, in bytes, that is compared by entry: it is held in memory."""


class CopyUnit(NamedTuple):
    """A broadcast copy, identified by the digest of its uncompressed bytes.

    `entry_types` are the type of the keys and the type of the values.
    """

    digest: int
    side: Side
    extent: Extent
    compressed: bool
    entry_types: tuple[TypeTree, ...]


@dataclass(frozen=True)
class CopyDigester:
    """Maps a broadcast copy to two digests: that of its uncompressed bytes, and that of its entries in any order."""

    files: BothFiles

    def __call__(self, unit: CopyUnit) -> tuple[int, int]:
        chunks = self.files[unit.side].chunks(unit.extent)
        data = b"".join(decompressed(chunks, has_identifier=False) if unit.compressed else chunks)
        try:
            return unit.digest, digest_entries(data, unit.entry_types)
        except SnapshotError:  # the bytes do not match the header's types, so only their own digest can be compared
            return unit.digest, unit.digest


def digest_entries(data: bytes, entry_types: tuple[TypeTree, ...]) -> int:
    """Return the digest of all entries of a broadcast copy. It does not depend on their order."""
    reader = ByteReader(data)
    entry_count = reader.count(len(entry_types))
    digest_sum = digest([entry_count.to_bytes(4, "big")])
    for _ in range(entry_count):
        entry_begin = reader.position
        for tree in entry_types:
            format_value(tree, reader)
        digest_sum += digest([data[entry_begin : reader.position]])
    if reader.remaining:
        raise reader.error("bytes follow the last entry of a broadcast state", found=reader.remaining)
    return digest_sum % MODULUS
