"""Virtual keys: for every subtask, the smallest key that belongs to it."""

from __future__ import annotations

import pytest

from rescale.flink.key_groups import key_group_of_hash, key_group_range
from rescale.flink.keys.virtual_keys import HASH_BY_KEY_TYPE, virtual_keys


@pytest.mark.parametrize("key_type", HASH_BY_KEY_TYPE)
@pytest.mark.parametrize(("max_parallelism", "parallelism"), [(128, 1), (128, 3), (128, 128), (1000, 7), (10, 4)])
def test_virtual_key_is_the_smallest_of_each_subtask(key_type: str, max_parallelism: int, parallelism: int) -> None:
    keys = virtual_keys(key_type, max_parallelism, parallelism)
    assert len(keys) == parallelism
    for subtask, key in enumerate(keys):
        own_groups = key_group_range(max_parallelism, parallelism, subtask)
        is_own = [
            key_group_of_hash(HASH_BY_KEY_TYPE[key_type](value), max_parallelism) in own_groups
            for value in range(key + 1)
        ]
        assert is_own.index(True) == key


def test_virtual_keys_of_int_and_string_differ() -> None:
    assert virtual_keys("int", 128, 4) != virtual_keys("string", 128, 4)


def test_int_and_long_agree_on_small_numbers() -> None:
    assert virtual_keys("int", 1000, 50) == virtual_keys("long", 1000, 50)
