"""Copies of a broadcast state in another order: a `HeapBroadcastState` writes the entries of a HashMap as they come.

    count:i32  { key value }*

Copies whose bytes differ are looked at by entry, as far as their serializers are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rescale.errors import SnapshotError
from rescale.execution.diff.found import BothFiles, Side
from rescale.execution.sources.byte_digests import MODULUS, digest
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.encoding.snappy import decompressed
from rescale.flink.serializers.type_tree import TypeTree
from rescale.flink.serializers.value_words import in_words
from rescale.snapshot.locate import Extent

LARGEST_COPY = 64 * 1024 * 1024
"""Bytes of a copy that is looked at by entry: it is held in memory."""


class CopyUnit(NamedTuple):
    """A copy, known by the digest of its bytes; `entry` are the types of a key and of a value."""

    digest: int
    side: Side
    extent: Extent
    deflated: bool
    entry: tuple[TypeTree, ...]


@dataclass(frozen=True)
class CopyDigester:
    """Gives the digest of a copy's bytes, and one that does not depend on the order of its entries."""

    files: BothFiles

    def __call__(self, unit: CopyUnit) -> tuple[int, int]:
        chunks = self.files[unit.side].chunks(unit.extent)
        data = b"".join(decompressed(chunks, identifier=False) if unit.deflated else chunks)
        try:
            return unit.digest, digest_entries(data, unit.entry)
        except SnapshotError:  # not what its header says; its bytes differ, and that is all to be said
            return unit.digest, unit.digest


def digest_entries(data: bytes, entry: tuple[TypeTree, ...]) -> int:
    """Of all entries of a copy, in any order."""
    reader = ByteReader(data)
    count = reader.count(len(entry))
    total = digest([count.to_bytes(4, "big")])
    for _ in range(count):
        begin = reader.position
        for tree in entry:
            in_words(tree, reader)
        total += digest([data[begin : reader.position]])
    if reader.remaining:
        raise reader.error("bytes behind the entries of a broadcast state", found=reader.remaining)
    return total % MODULUS
