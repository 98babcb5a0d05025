"""Finds the ends of many keys in a buffer, and computes their Java `hashCode`, from the bytes that a serializer wrote.

A record lies in the key group of its key, so callers can check the hash. The loops do not trust the bytes: a key that
is damaged, or not of the expected type, gets an error code in `error_codes`, and has no effect on other keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rescale.flink.arrays import Bytes, HashCodes, Longs
from rescale.flink.serializers.program import Program

ERROR_TEXTS = (
    "",
    "the key does not lie in the data",
    "the data ends inside the key",
    "an impossible length",
    "an impossible flag",
    "a mask of null fields with a bit after the last field",
    "an impossible character",
    "an object of a subclass of its POJO, which cannot be delimited",
)
"""Descriptions of damaged keys, by the error code of `machine`; 0 is an intact key."""

SUBCLASS = 7
"""Error code of a key that is intact, but contains an object of a subclass."""


@dataclass(frozen=True)
class WalkedKeys:
    """Results for n keys, as arrays of shape (n,).

    `ends` (int64) has the end of each key, or the offset of its error. `error_codes` (uint8) has an error code for each
    key, which is an index of `ERROR_TEXTS`. `hash_codes` (int32) has the `hashCode` of each key, 0 for a wrong
    key; `hash_codes` is None if the program is not hashable.
    """

    ends: Longs
    error_codes: Bytes
    hash_codes: HashCodes | None

    def first_error(self) -> tuple[int, str] | None:
        """Return the index of the first wrong key, and the description of its error; None if no key is wrong."""
        if not self.error_codes.any():
            return None
        index = int(np.flatnonzero(self.error_codes)[0])
        return index, ERROR_TEXTS[self.error_codes[index]]


def walk_keys(program: Program, data: Bytes, starts: Longs, limits: Longs) -> WalkedKeys:
    """Run `program` over the keys that begin at `starts` (after their key groups); no key is read beyond its limit.

    `starts` and `limits` are offsets in `data`, of shape (n,). The bytes between the end of a key and its limit, such
    as the namespace in a composite key, are not read. Raises `ValueError` if the arrays differ in length.
    """
    from rescale.flink.keys import machine  # loads numba, which takes most of a second
    from rescale.flink.keys.lowering import lower

    if starts.shape != limits.shape:
        raise ValueError(f"{len(starts)} starts and {len(limits)} limits")
    instructions, depth = lower(program.tree)
    key_count = len(starts)
    ends, hash_codes = np.empty(key_count, np.int64), np.empty(key_count, np.int32)
    error_codes = np.empty(key_count, np.uint8)
    read_only = np.ascontiguousarray(data, np.uint8).view()
    read_only.flags.writeable = False  # a writeable array is another type, for which numba would compile the loop again
    with np.errstate(over="ignore"):  # hashes overflow on purpose, and without numba NumPy would warn
        machine.walk(instructions, depth, read_only, _longs(starts), _longs(limits), ends, hash_codes, error_codes)
    return WalkedKeys(ends, error_codes, hash_codes if program.hashable else None)


def walk_values(program: Program, data: Bytes, start: int, value_count: int) -> tuple[Longs, str | None]:
    """Return (ends, error) for `value_count` values of `program` that lie end to end in `data` from `start` on.

    `ends` (int64) has the end of each value, and `error` is None. If a value cannot be read, `ends` has only the ends
    of the values before it, and `error` describes the error.
    """
    from rescale.flink.keys import machine
    from rescale.flink.keys.lowering import lower

    instructions, depth = lower(program.tree)
    read_only = np.ascontiguousarray(data, np.uint8).view()
    read_only.flags.writeable = False
    ends = np.empty(value_count, np.int64)
    with np.errstate(over="ignore"):
        readable_count, error_code = machine.walk_values(instructions, depth, read_only, start, ends)
    return ends[:readable_count], ERROR_TEXTS[error_code] or None


def key_groups_of_hashes(hash_codes: HashCodes, max_parallelism: int) -> HashCodes:
    """Return the key group of each `hashCode` (int32), as `key_groups.key_group_of_hash` does for a single one."""
    from rescale.flink.keys.murmur import fill_key_groups  # loads numba

    key_groups = np.empty(len(hash_codes), np.int32)
    with np.errstate(over="ignore"):  # hashes overflow on purpose, and without numba NumPy would warn
        fill_key_groups(np.require(hash_codes, np.int32, ["C", "W"]), max_parallelism, key_groups)
    return key_groups


def _longs(numbers: Longs) -> Longs:
    return np.require(numbers, np.int64, ["C", "W"])
