"""Digests of two byte sequences that are computed together equal the digests of each alone."""

from __future__ import annotations

from itertools import product

import pytest

from rescale.execution.sources.byte_digests import digest, digest_pair

RUNS = [b"", b"a", b"0123456789", b"012345678x", b"x123456789", b"01234", b"0123456789" * 2]


def cut(run: bytes, size: int) -> list[memoryview]:
    return [memoryview(run)[at : at + size] for at in range(0, len(run), size)]


@pytest.mark.parametrize("sizes", [(4, 4), (4, 3), (1, 20), (20, 20)], ids=str)
def test_digest_pair_equals_the_digests_of_both(sizes: tuple[int, int]) -> None:
    for first, two in product(RUNS, repeat=2):
        assert digest_pair(cut(first, sizes[0]), cut(two, sizes[1])) == (digest([first]), digest([two]))
