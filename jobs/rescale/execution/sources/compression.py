"""Chunks in and out of Snappy's framing, as key groups and elements have it (`SnappyStreamCompressionDecorator`)."""

from __future__ import annotations

from collections.abc import Iterator

from rescale.execution.sources.chunks import Chunk
from rescale.flink.snappy import FramedCompressor, FramedDecompressor


def decompressed(chunks: Iterator[Chunk], *, identifier: bool = True) -> Iterator[bytes]:
    """`SnapshotError` where they are damaged; elements lack the `identifier` that key groups begin with."""
    decompressor = FramedDecompressor(identifier=identifier)
    yield from map(decompressor.feed, chunks)
    decompressor.finish()


def compressed(chunks: Iterator[bytes]) -> Iterator[bytes]:
    compressor = FramedCompressor()
    yield from map(compressor.feed, chunks)
    yield compressor.finish()
