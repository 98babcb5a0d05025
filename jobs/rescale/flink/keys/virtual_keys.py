"""Virtual keys: a key for each subtask, so that `keyBy` can address subtasks.

A job that chooses the subtask of a record itself returns such a key in `keyBy`. The subtask of a key depends on the max
parallelism and the parallelism, so a job needs new virtual keys whenever one of them changes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from types import MappingProxyType

from rescale.flink.key_groups import key_group_of_hash, subtask_of_key_group
from rescale.flink.keys.java_strings import java_string_hash


def _long_hash(value: int) -> int:
    """Return `Long.hashCode` of a number that is not negative."""
    return (value ^ value >> 32) & 0xFFFFFFFF


HASH_BY_KEY_TYPE: MappingProxyType[str, Callable[[int], int]] = MappingProxyType(
    {"int": lambda value: value, "long": _long_hash, "string": lambda value: java_string_hash(str(value))}
)
"""Functions that return the Java `hashCode` of a small number from 0 up, by type of key.

A key of type `string` is the number in decimal.
"""


def virtual_keys(key_type: str, max_parallelism: int, parallelism: int) -> tuple[int, ...]:
    """Return for each subtask the smallest number, from 0 up, whose key belongs to the subtask.

    `key_type` is a key of `HASH_BY_KEY_TYPE`. The search ends, because the numbers reach every key group below the max
    parallelism.
    """
    hash_of = HASH_BY_KEY_TYPE[key_type]
    number_by_subtask: dict[int, int] = {}
    for number in count():
        key_group = key_group_of_hash(hash_of(number), max_parallelism)
        number_by_subtask.setdefault(subtask_of_key_group(max_parallelism, parallelism, key_group), number)
        if len(number_by_subtask) == parallelism:
            return tuple(number_by_subtask[subtask] for subtask in range(parallelism))
    raise AssertionError("unreachable: the numbers do not end")
