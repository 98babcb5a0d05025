"""Operator ids: 16 bytes, written as 32 hex digits.

The id of an operator with a `uid` is the murmur3_128 hash of the uid, with seed 0
(`StreamGraphHasherV2.generateUserSpecifiedHash`). The id of an operator without a uid hashes the topology of the job,
so it cannot be derived.
"""

from __future__ import annotations

import re

import mmh3

_HEX_ID = re.compile(r"[0-9a-fA-F]{32}")


def operator_id_of_uid(uid: str) -> str:
    """Return the id, as 32 hex digits, of the operator with this uid."""
    return mmh3.hash_bytes(uid.encode("utf-8"), 0).hex()


def is_operator_id(text: str) -> bool:
    """Whether the text is an operator id: 32 hex digits."""
    return _HEX_ID.fullmatch(text) is not None
