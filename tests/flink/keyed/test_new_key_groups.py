"""New key groups of records, and the refusal that names a key in a wrong key group."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.flink.key_groups import key_group_of_hash
from rescale.flink.keyed.composite_key import composite_keys
from rescale.flink.keyed.header import read_keyed_header
from rescale.flink.keyed.new_key_groups import NewKeyGroups
from rescale.flink.keys.pojo_formulas import KNOWN_HASH
from rescale.text.errors import IntegrityError
from support.canonical import Record
from support.composite import records_in_buffer
from support.java_hash_codes import long_code
from support.snapshot_bytes import LONG, keyed_header, keyed_state

LONG_KEYS = composite_keys(read_keyed_header(keyed_header(keyed_state("total"), key=LONG), ""), KNOWN_HASH)
long_keys = st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=20)


def record_of_key(key: int) -> Record:
    return Record(0, key.to_bytes(8, "big", signed=True) + b"\0", b"")


@given(long_keys, st.sampled_from([(128, 1000), (128, 64), (1000, 128), (10, 97), (4096, 32768), (1, 7), (7, 1)]))
def test_records_get_the_key_groups_of_the_new_max_parallelism(keys: list[int], maxima: tuple[int, int]) -> None:
    old_max_parallelism, new_max_parallelism = maxima
    records = records_in_buffer(
        list(map(record_of_key, keys)), [key_group_of_hash(long_code(key), old_max_parallelism) for key in keys]
    )
    groups, codes = NewKeyGroups(LONG_KEYS, old_max_parallelism, new_max_parallelism).assign(records)
    assert groups.dtype == np.int64
    assert groups.tolist() == [key_group_of_hash(long_code(key), new_max_parallelism) for key in keys]
    assert codes is not None
    assert codes.tolist() == list(map(long_code, keys))


@pytest.mark.parametrize(("old_max_parallelism", "new_max_parallelism"), [(128, 1000), (128, 64)])
def test_a_record_in_a_foreign_key_group_is_named(old_max_parallelism: int, new_max_parallelism: int) -> None:
    groups = [key_group_of_hash(long_code(key), old_max_parallelism) for key in range(5)]
    groups[3] ^= 1
    with pytest.raises(IntegrityError, match="does not give the key group") as caught:
        NewKeyGroups(LONG_KEYS, old_max_parallelism, new_max_parallelism).assign(
            records_in_buffer(list(map(record_of_key, range(5))), groups)
        )
    error = caught.value
    assert (error.state, error.exit_code) == ("total", 4)
    assert "key bytes 000000000000000300 in" in error.what
    assert error.expected == f"key group {groups[3]} of {old_max_parallelism}"
    assert error.found == f"key group {groups[3] ^ 1}"
    assert "--key-hash" in str(error.advice)


def test_hash_is_needed_unless_the_new_max_parallelism_is_a_divisor() -> None:
    records = records_in_buffer(list(map(record_of_key, range(4))), [0, 63, 64, 127])
    groups, codes = NewKeyGroups(None, 128, 64).assign(records)
    assert (groups.tolist(), codes) == ([0, 63, 0, 63], None)
    with pytest.raises(ValueError, match="1000 does not divide 128"):
        NewKeyGroups(None, 128, 1000)
