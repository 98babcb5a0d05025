"""The classes of work: which new key group a record gets, and the proof that its key was understood.

*Regroup*: the new maximum divides the old one, so the new key group is the old one modulo the new maximum, whatever the
key. *Rehash*: the key is hashed as Java does it. Wherever the hash is known, the old key group is computed from it too:
it must be the one that the record was found in.
"""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Codes, Longs
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.composite_key import CompositeKeys
from rescale.flink.keys.java_hash import key_groups_of_hashes


class NewKeyGroups:
    """Says where records go that lie in the key groups of `old_max`; `keys` is None where no hash is known."""

    def __init__(self, keys: CompositeKeys | None, old_max: int, new_max: int) -> None:
        if keys is None and old_max % new_max:
            raise ValueError(f"no hash, and {new_max} does not divide {old_max}")
        self._keys = keys
        self._old_max = old_max
        self._new_max = new_max

    def of(self, records: Records) -> tuple[Longs, Codes | None]:
        """The new key group of each record, and the hash of its key; `IntegrityError` names one in a wrong place."""
        codes = self._checked(records) if self._keys is not None else None
        if codes is None or self._old_max % self._new_max == 0:
            return records.groups % self._new_max, codes
        return key_groups_of_hashes(codes, self._new_max).astype(np.int64), codes

    def _checked(self, records: Records) -> Codes:
        assert self._keys is not None
        codes = self._keys.hash(records)
        groups = key_groups_of_hashes(codes, self._old_max)
        wrong = groups != records.groups
        if wrong.any():
            index = int(np.argmax(wrong))
            raise self._keys.mismatch(
                records,
                index,
                "the hash of a key does not give the key group that it lies in",
                f"key group {groups[index]}",
                expected=f"key group {records.groups[index]} of {self._old_max}",
                advice="the key's class hashes in another way, or the snapshot is damaged: name the right hash "
                "(--key-hash), or take a max parallelism that divides the old one, which needs none",
            )
        return codes
