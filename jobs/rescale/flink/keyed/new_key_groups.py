"""Finds the new key groups of records, and checks that the keys are read and hashed correctly.

*Regroup*: the new max parallelism divides the old one. Then the new key group is the old one modulo the new max
parallelism, and no hash is needed. *Rehash*: the new key group follows from the key's Java hash. If a hash is given,
every record tests it: the hash must give the old key group, which contains the record.
"""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import HashCodes, Longs
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.composite_key import CompositeKeys
from rescale.flink.keys.java_hash import key_groups_of_hashes
from rescale.text.advice import Advice, mention


class NewKeyGroups:
    """Maps records from `old_max` to `new_max` key groups (max parallelisms).

    Without a hash, `keys` is None, and `new_max` must divide `old_max`: otherwise raises `ValueError`.
    """

    def __init__(self, keys: CompositeKeys | None, old_max: int, new_max: int) -> None:
        if keys is None and old_max % new_max:
            raise ValueError(f"no hash, and {new_max} does not divide {old_max}")
        self._composite_keys = keys
        self._old_max = old_max
        self._new_max = new_max

    def assign(self, records: Records) -> tuple[Longs, HashCodes | None]:
        """Return the new key group of each record (int64), and the hashes of the keys (int32; None without a hash).

        Raises `IntegrityError`, which names the record, if the hash of a key does not give its old key group.
        """
        hash_codes = self._checked_hashes(records) if self._composite_keys is not None else None
        if hash_codes is None or self._old_max % self._new_max == 0:
            return records.groups % self._new_max, hash_codes
        return key_groups_of_hashes(hash_codes, self._new_max).astype(np.int64), hash_codes

    def _checked_hashes(self, records: Records) -> HashCodes:
        assert self._composite_keys is not None
        hash_codes = self._composite_keys.hash(records)
        expected_groups = key_groups_of_hashes(hash_codes, self._old_max)
        is_wrong = expected_groups != records.groups
        if is_wrong.any():
            index = int(np.argmax(is_wrong))
            raise self._composite_keys.key_group_error(
                records,
                index,
                "the hash of a key does not give the key group that contains it",
                f"key group {expected_groups[index]}",
                expected=f"key group {records.groups[index]} of {self._old_max}",
                advice=Advice(
                    "the key's class has another hash, or the snapshot is damaged: name the right hash (",
                    mention("key-hash"),
                    "), or choose a max parallelism that divides the old one, which needs no hash",
                ),
            )
        return hash_codes
