"""Ends of keys in a buffer, and their Java `hashCode`, from the bytes that a serializer wrote: many keys at a time.

A record lies in the key group of its key, so callers can check the hash. Nothing here trusts the bytes: a key that is
damaged, or is not of its type, gets an error code in `wrong`, and has no effect on other keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rescale.flink.arrays import Bytes, Codes, Longs
from rescale.flink.serializers.program import Program

WRONG = (
    "",
    "the key does not lie in the data",
    "the data ends inside the key",
    "an impossible length",
    "an impossible flag",
    "a mask of null fields with bits behind its end",
    "an impossible character",
    "an object of a subclass of its POJO, which cannot be delimited",
)
"""Descriptions of damaged keys, by the error code of `machine`; 0 is an intact key."""

SUBCLASS = 7
"""Error code of a key that is intact, but contains an object of a subclass."""


@dataclass(frozen=True)
class WalkedKeys:
    """Results for each key: `ends` (int64) has its end, or the place of an error; `wrong` (uint8) an index of `WRONG`.

    `codes` (int32) are the `hashCode`s, 0 for wrong keys; None if the program is not hashable.
    """

    ends: Longs
    wrong: Bytes
    codes: Codes | None

    def first_wrong(self) -> tuple[int, str] | None:
        """Return the index of the first wrong key, and the description of its error; None if no key is wrong."""
        if not self.wrong.any():
            return None
        index = int(np.flatnonzero(self.wrong)[0])
        return index, WRONG[self.wrong[index]]


def walk_keys(program: Program, data: Bytes, starts: Longs, limits: Longs) -> WalkedKeys:
    """Run `program` over the keys that begin at `starts` (behind their key groups); no key is read beyond its limit.

    The bytes between a key's end and its limit, such as the namespace of a composite key, are left to the caller.
    """
    from rescale.flink.keys import machine  # loads numba: it takes most of a second, and few processes need it
    from rescale.flink.keys.lowering import lower

    if starts.shape != limits.shape:
        raise ValueError(f"{len(starts)} starts and {len(limits)} limits")
    code, depth = lower(program.tree)
    count = len(starts)
    ends, codes = np.empty(count, np.int64), np.empty(count, np.int32)
    wrong = np.empty(count, np.uint8)
    seen = np.ascontiguousarray(data, np.uint8).view()
    seen.flags.writeable = False  # numba compiles a second version for writeable arrays
    with np.errstate(over="ignore"):  # matters where the machine is not compiled
        machine.walk(code, depth, seen, _longs(starts), _longs(limits), ends, codes, wrong)
    return WalkedKeys(ends, wrong, codes if program.hashable else None)


def walk_row(program: Program, data: Bytes, start: int, most: int) -> tuple[Longs, str | None]:
    """Return the ends of up to `most` values that lie end to end from `start` on, and the error if there are fewer."""
    from rescale.flink.keys import machine
    from rescale.flink.keys.lowering import lower

    code, depth = lower(program.tree)
    seen = np.ascontiguousarray(data, np.uint8).view()
    seen.flags.writeable = False
    places = np.empty(most, np.int64)
    with np.errstate(over="ignore"):
        count, wrong = machine.walk_row(code, depth, seen, start, places)
    return places[:count], WRONG[wrong] or None


def key_groups_of_hashes(codes: Codes, max_parallelism: int) -> Codes:
    """Return the key group of each `hashCode`, as `key_groups.key_group_of_hash` does for a single one."""
    from rescale.flink.keys.murmur import fill_key_groups  # numba, as above

    groups = np.empty(len(codes), np.int32)
    with np.errstate(over="ignore"):  # as above
        fill_key_groups(np.require(codes, np.int32, ["C", "W"]), max_parallelism, groups)
    return groups


def _longs(numbers: Longs) -> Longs:
    return np.require(numbers, np.int64, ["C", "W"])
