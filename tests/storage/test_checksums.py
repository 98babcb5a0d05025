"""Checksums of parts and wholes, and which of S3's are taken for one."""

from __future__ import annotations

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.storage.checksums import CRCS, Checksum, Crc
from rescale.storage.s3.s3_checksums import stored_checksums

every_crc = pytest.mark.parametrize("crc", CRCS.values(), ids=list(CRCS))


def test_the_check_values_of_their_specifications() -> None:
    assert CRCS["CRC64NVME"].of(b"123456789") == 0xAE8B14860A799888
    assert CRCS["CRC32C"].of(b"123456789") == 0xE3069283


@given(st.binary(max_size=300))
def test_the_library_has_the_same(data: bytes) -> None:
    assert CRCS["CRC32C"].of(data) == google_crc32c.value(data)


@every_crc
@given(first=st.binary(max_size=200), second=st.binary(max_size=3000))
def test_parts_make_a_whole_and_a_whole_has_parts(crc: Crc, first: bytes, second: bytes) -> None:
    whole = crc.of(first + second)
    assert crc.joined(crc.of(first), crc.of(second), len(second)) == whole
    assert crc.rest(whole, crc.of(first), len(second)) == crc.of(second)


@every_crc
def test_order_and_length_count(crc: Crc) -> None:
    first, other = crc.of(b"one"), crc.of(b"other")
    assert len({crc.joined(first, other, 5), crc.joined(other, first, 3), crc.joined(first, other, 3)}) == 3


CRC64 = "rosUhgp5mIg="


@pytest.mark.parametrize(
    ("head", "checksums"),
    [
        ({"ChecksumCRC64NVME": CRC64, "ChecksumType": "FULL_OBJECT"}, [("CRC64NVME", 0xAE8B14860A799888)]),
        (
            {"ChecksumCRC64NVME": CRC64, "ChecksumCRC32C": "4waSgw=="},
            [("CRC64NVME", 0xAE8B14860A799888), ("CRC32C", 0xE3069283)],
        ),
        ({"ChecksumCRC32C": "4waSgw==", "ChecksumType": "COMPOSITE"}, []),
        ({"ChecksumCRC32C": "4waSgw==-2"}, []),
        ({"ChecksumCRC64NVME": "4waSgw=="}, []),
        ({"ChecksumSHA256": "4waSgw=="}, []),
    ],
)
def test_checksums_of_whole_objects(head: dict[str, str], checksums: list[tuple[str, int]]) -> None:
    assert stored_checksums({"ETag": '"x-2"', **head}) == [Checksum(*checksum) for checksum in checksums]


def test_an_etag_is_one_where_it_may_be_that_of_the_bytes() -> None:
    etag = "0" * 31 + "a"
    assert stored_checksums({"ETag": f'"{etag}"'}) == stored_checksums({"ETag": etag}) == [Checksum("ETag", 10)]
    assert stored_checksums({"ETag": f'"{etag}-3"'}) == []
