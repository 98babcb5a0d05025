"""Splits long runs of bytes, which come in chunks of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Chunk = bytes | memoryview


def runs(chunks: Iterator[bytes], lengths: Iterable[int]) -> Iterator[Iterator[memoryview]]:
    """Split the bytes into consecutive runs of `lengths` bytes, each to be exhausted before the next one."""
    rest = memoryview(b"")

    def run(length: int) -> Iterator[memoryview]:
        nonlocal rest
        while length > 0:
            if not rest:
                rest = memoryview(next(chunks))
            piece, rest = rest[:length], rest[length:]
            length -= len(piece)
            yield piece

    for length in lengths:
        yield run(length)
