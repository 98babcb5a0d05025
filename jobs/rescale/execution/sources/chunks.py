"""Splits long runs of bytes, which come in chunks of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Chunk = bytes | memoryview


def runs(chunks: Iterator[bytes], lengths: Iterable[int]) -> Iterator[Iterator[memoryview]]:
    """Split the bytes into consecutive runs of `lengths` bytes, each to be exhausted before the next one."""
    remaining = memoryview(b"")

    def run(length: int) -> Iterator[memoryview]:
        nonlocal remaining
        while length > 0:
            if not remaining:
                remaining = memoryview(next(chunks))
            taken, remaining = remaining[:length], remaining[length:]
            length -= len(taken)
            yield taken

    for length in lengths:
        yield run(length)
