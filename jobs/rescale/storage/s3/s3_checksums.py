"""The checksums in S3's answer to a HEAD: of the whole object, not of its parts, which nobody can compare."""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from typing import Any

from rescale.storage.checksums import CRCS, Checksum

ETAG = "ETag"
"""Of an object that was put at once, or copied so, it is the MD5 of its bytes, unless S3 encrypts it by a key of KMS:
then it is that of other bytes, and never the same twice."""

_MD5 = re.compile('"?([0-9a-f]{32})"?')
"""Others have the number of their parts."""


def stored_checksums(head: Mapping[str, Any]) -> list[Checksum]:
    found = []
    for crc in CRCS.values():
        value = _decoded(head.get(f"Checksum{crc.name}", ""))
        if len(value) == crc.bits // 8 and head.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT":
            found.append(Checksum(crc.name, int.from_bytes(value, "big")))
    if (match := _MD5.fullmatch(head["ETag"])) is not None:
        found.append(Checksum(ETAG, int(match[1], 16)))
    return found


def _decoded(text: str) -> bytes:
    """Empty where there is none, or one of parts (`...==-3`)."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        return b""
