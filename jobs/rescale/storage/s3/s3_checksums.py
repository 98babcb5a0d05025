"""Checksums of whole objects in S3's answer to a HEAD; checksums of parts cannot be compared, so they are ignored."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Any

from rescale.storage.checksums import CRCS, Checksum, checksum_of_etag


def stored_checksums(head: Mapping[str, Any]) -> list[Checksum]:
    """Return the checksums of a whole object in the answer to a HEAD, the strongest first."""
    checksums = []
    for crc in CRCS.values():
        value = _decoded(head.get(f"Checksum{crc.name}", ""))
        if len(value) == crc.bits // 8 and head.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT":
            checksums.append(Checksum(crc.name, int.from_bytes(value, "big")))
    if (etag_checksum := checksum_of_etag(head["ETag"])) is not None:
        checksums.append(etag_checksum)
    return checksums


def _decoded(text: str) -> bytes:
    """Return the bytes of a checksum; no bytes for a checksum of parts, which ends with their number (`...==-3`)."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        return b""
