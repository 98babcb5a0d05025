"""Reads of long ranges use fewer and larger requests to S3."""

from __future__ import annotations

import pytest

from rescale.storage.s3.request_size import request_size

MIB = 1 << 20


@pytest.mark.parametrize(
    ("length", "expected"), [(0, 4), (5, 4), (64, 4), (80, 5), (100, 6.25), (256, 16), (3000, 16), (10**6, 16)]
)
def test_request_size_grows_with_the_length_of_the_range(length: int, expected: float) -> None:
    assert request_size(length * MIB) == expected * MIB
    assert request_size(length * MIB, 32 * MIB) == 32 * MIB
    assert request_size(1000, 250) == 250
