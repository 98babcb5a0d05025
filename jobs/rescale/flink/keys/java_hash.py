"""Where keys end in a buffer, and their Java `hashCode`, from the bytes that a serializer wrote: many keys at a time.

Every record sits in the key group of its key, so whoever computes the key group anew can compare. Nothing here trusts
the bytes: a key that is damaged, or is not of its type, costs that key an entry in `wrong` and no other key anything.
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
    "a length that cannot be",
    "a flag that cannot be",
    "a mask of null fields with bits behind its end",
    "a character that cannot be",
    "an object of a subclass of its POJO, which is not followed",
)
"""Texts for damaged keys, by the number that the machine returns; 0 is an intact key."""

SUBCLASS = 7
"""Number for a key that is intact, but not followed."""


@dataclass(frozen=True)
class WalkedKeys:
    """For each key: `ends` (int64) where it ends, or where it is wrong; `wrong` (uint8) an index of `WRONG`.

    `codes` (int32) are the `hashCode`s, 0 for what is wrong; None if the program is not hashable.
    """

    ends: Longs
    wrong: Bytes
    codes: Codes | None

    def first_wrong(self) -> tuple[int, str] | None:
        """The index of the first key that is wrong, and why."""
        if not self.wrong.any():
            return None
        index = int(np.flatnonzero(self.wrong)[0])
        return index, WRONG[self.wrong[index]]


def walk_keys(program: Program, data: Bytes, starts: Longs, limits: Longs) -> WalkedKeys:
    """Runs `program` over the keys that begin at `starts` (without the key group in front); none is read to its limit.

    What lies between a key's end and its limit, such as the namespace of a composite key, is for the caller.
    """
    from rescale.flink.keys import machine  # numba: most of a second for every process, and few need it
    from rescale.flink.keys.lowering import lower

    if starts.shape != limits.shape:
        raise ValueError(f"{len(starts)} starts and {len(limits)} limits")
    code, depth = lower(program.tree)
    count = len(starts)
    ends, codes = np.empty(count, np.int64), np.empty(count, np.int32)
    wrong = np.empty(count, np.uint8)
    seen = np.ascontiguousarray(data, np.uint8).view()
    seen.flags.writeable = False  # always, or numba compiles twice
    with np.errstate(over="ignore"):  # matters where the machine is not compiled
        machine.walk(code, depth, seen, _longs(starts), _longs(limits), ends, codes, wrong)
    return WalkedKeys(ends, wrong, codes if program.hashable else None)


def walk_row(program: Program, data: Bytes, start: int, most: int) -> tuple[Longs, str | None]:
    """Where values end that lie one behind the other from `start` on: of the first `most`, and why there are fewer."""
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
    """The key group of each `hashCode`: `key_groups.key_group_of_hash` for many."""
    from rescale.flink.keys.murmur import scramble  # numba, as above

    groups = np.empty(len(codes), np.int32)
    with np.errstate(over="ignore"):  # as above
        scramble(np.require(codes, np.int32, ["C", "W"]), max_parallelism, groups)
    return groups


def _longs(numbers: Longs) -> Longs:
    return np.require(numbers, np.int64, ["C", "W"])
