"""Operator ids: 16 bytes, written as 32 hex digits.

A user's `uid` is hashed by murmur3_128 with seed 0 (`StreamGraphHasherV2.generateUserSpecifiedHash`); ids of
operators without a uid hash the topology and cannot be derived.
"""

from __future__ import annotations

import re

import mmh3

_HEX_ID = re.compile(r"[0-9a-fA-F]{32}")


def operator_id_of_uid(uid: str) -> str:
    return mmh3.hash_bytes(uid.encode("utf-8"), 0).hex()


def is_operator_id(text: str) -> bool:
    return _HEX_ID.fullmatch(text) is not None
