"""Digests of two byte sequences that are computed together equal the digests of each alone."""

from __future__ import annotations

from itertools import product

import pytest

from rescale.execution.sources.byte_digests import digest, digest_pair

SEQUENCES = [b"", b"a", b"0123456789", b"012345678x", b"x123456789", b"01234", b"0123456789" * 2]


def in_pieces(sequence: bytes, size: int) -> list[memoryview]:
    return [memoryview(sequence)[start : start + size] for start in range(0, len(sequence), size)]


@pytest.mark.parametrize("sizes", [(4, 4), (4, 3), (1, 20), (20, 20)], ids=str)
def test_digest_pair_equals_the_digests_of_both(sizes: tuple[int, int]) -> None:
    for first, second in product(SEQUENCES, repeat=2):
        assert digest_pair(in_pieces(first, sizes[0]), in_pieces(second, sizes[1])) == (
            digest([first]),
            digest([second]),
        )
