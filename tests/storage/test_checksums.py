"""Checksums of parts and of whole objects, and which checksums of S3 are used."""

from __future__ import annotations

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.storage.checksums import CRCS, Checksum, Crc
from rescale.storage.s3.s3_checksums import stored_checksums

every_crc = pytest.mark.parametrize("crc", CRCS.values(), ids=list(CRCS))


def test_crcs_give_the_check_values_of_their_specifications() -> None:
    assert CRCS["CRC64NVME"].compute(b"123456789") == 0xAE8B14860A799888
    assert CRCS["CRC32C"].compute(b"123456789") == 0xE3069283


@given(st.binary(max_size=300))
def test_crc32c_equals_that_of_google_crc32c(data: bytes) -> None:
    assert CRCS["CRC32C"].compute(data) == google_crc32c.value(data)


@every_crc
@given(first=st.binary(max_size=200), second=st.binary(max_size=3000))
def test_crcs_of_parts_and_whole_follow_from_each_other(crc: Crc, first: bytes, second: bytes) -> None:
    whole = crc.compute(first + second)
    assert crc.combine(crc.compute(first), crc.compute(second), len(second)) == whole
    assert crc.of_suffix(whole, crc.compute(first), len(second)) == crc.compute(second)


@every_crc
def test_combined_crc_depends_on_order_and_length_of_the_parts(crc: Crc) -> None:
    first, other = crc.compute(b"one"), crc.compute(b"other")
    assert len({crc.combine(first, other, 5), crc.combine(other, first, 3), crc.combine(first, other, 3)}) == 3


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
def test_only_checksums_of_whole_objects_are_used(head: dict[str, str], checksums: list[tuple[str, int]]) -> None:
    assert stored_checksums({"ETag": '"x-2"', **head}) == [Checksum(*checksum) for checksum in checksums]


def test_etag_is_a_checksum_only_without_the_suffix_of_a_multipart_upload() -> None:
    etag = "0" * 31 + "a"
    assert stored_checksums({"ETag": f'"{etag}"'}) == stored_checksums({"ETag": etag}) == [Checksum("ETag", 10)]
    assert stored_checksums({"ETag": f'"{etag}-3"'}) == []
