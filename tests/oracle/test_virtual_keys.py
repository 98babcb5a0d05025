"""Flink assigns virtual keys to the subtasks for which Rescale computes them."""

from __future__ import annotations

import pytest

from oracle.harness import Flink
from rescale.flink.keys.virtual_keys import HASH_BY_KEY_TYPE, virtual_keys


@pytest.mark.parametrize("key_type", HASH_BY_KEY_TYPE)
def test_flink_assigns_each_virtual_key_to_its_subtask(flink: Flink, key_type: str) -> None:
    for max_parallelism, parallelism in ((128, 5), (1000, 64), (32768, 100)):
        codes = [HASH_BY_KEY_TYPE[key_type](key) for key in virtual_keys(key_type, max_parallelism, parallelism)]
        groups = flink.key_groups(hashes=[(code, max_parallelism) for code in codes])["groups"]
        owners = flink.key_groups(owners=[(max_parallelism, parallelism, group) for group in groups])["owners"]
        assert owners == list(range(parallelism))
