"""Planning refuses keys that cannot be hashed, from headers alone and before any step begins."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rescale.flink.advice import DIVISORS_NEED_NO_HASH, RESCALE_CANONICAL_SAVEPOINT
from rescale.flink.operator_id import operator_id_of_uid
from rescale.text.errors import RequestError, UnsupportedError
from support import snapshots
from support.pipeline import plan_rescale
from support.snapshot_bytes import CUSTOM, LONG, STRING, VOID_NAMESPACE, i32, keyed_header, keyed_state, kryo, state
from support.written import UID, write_heap_savepoint, write_savepoint

HASH = "keys_of_mine:hash_code"
KRYO = kryo("com.x.Money")
TOTAL, LIST = keyed_state("total"), keyed_state("list", CUSTOM, "LIST")
MAP, BY_NAME = (
    keyed_state("map", CUSTOM, "MAP"),
    state("by name", 0, {"KEYED_STATE_TYPE": "VALUE"}, {"VALUE_SERIALIZER": LONG, "NAMESPACE_SERIALIZER": STRING}),
)
QUEUE = state("queue", 3, {}, {"VALUE_SERIALIZER": LONG, "NAMESPACE_SERIALIZER": VOID_NAMESPACE})


def planned_key_hashes(directory: Path, header: bytes, max_parallelism: str, *key_hash: str) -> dict[str, str]:
    """Return the key hash of each operator in the plan, by operator id."""
    source = write_savepoint(directory / "source", header, {}, 2, 128)
    return plan_rescale(
        source, str(directory / "target"), max_parallelism=[max_parallelism], key_hash=key_hash
    ).key_hashes


@pytest.mark.parametrize(("max_parallelism", "key_hash"), [("1000", (HASH,)), ("64", (HASH,)), ("1000", ())])
@pytest.mark.parametrize(("key", "key_type"), [(CUSTOM, "com.example.Money$Snapshot"), (KRYO, "Kryo com.x.Money")])
@pytest.mark.parametrize("open_ended", [MAP, BY_NAME])
def test_keys_without_a_known_end_are_refused(
    open_ended: bytes, key: bytes, key_type: str, max_parallelism: str, key_hash: tuple[str, ...], tmp_path: Path
) -> None:
    """The serializer of keys is unknown, and what follows the key has no fixed length.

    A hash function of the user's own does not help, because it needs the bytes of the key.
    """
    header = keyed_header(TOTAL, open_ended, key=key)
    with pytest.raises(UnsupportedError, match="the end of the keys is unknown") as caught:
        planned_key_hashes(tmp_path, header, max_parallelism, *key_hash)
    assert caught.value.operator == operator_id_of_uid(UID)
    assert caught.value.state in ("map", "by name")
    assert caught.value.found == f"keys of the type {key_type}"
    assert caught.value.advice == DIVISORS_NEED_NO_HASH


def test_keys_without_a_known_end_on_the_heap_need_a_canonical_savepoint(tmp_path: Path) -> None:
    """Entries of the heap have no lengths, so no max parallelism helps, not even a divisor."""
    groups = {
        group: i32(group) + b"".join(struct.pack(">hi", number, 0) for number in range(2)) for group in range(128)
    }
    source = write_heap_savepoint(tmp_path / "source", [keyed_header(TOTAL, MAP, key=KRYO)], groups, 128)
    for max_parallelism in ("1000", "64"):
        with pytest.raises(UnsupportedError, match="entries of the heap's format have no lengths") as caught:
            plan_rescale(source, str(tmp_path / "target"), max_parallelism=[max_parallelism])
        assert caught.value.advice == RESCALE_CANONICAL_SAVEPOINT


def test_keys_with_a_known_end_get_the_requested_hash(tmp_path: Path) -> None:
    hash_by_operator = {operator_id_of_uid(UID): HASH}
    assert (
        planned_key_hashes(tmp_path / "told", keyed_header(TOTAL, LIST, key=CUSTOM), "1000", HASH) == hash_by_operator
    )
    assert (
        planned_key_hashes(tmp_path / "read", keyed_header(TOTAL, MAP), "1000", f"{operator_id_of_uid(UID)}={HASH}")
        == hash_by_operator
    )
    assert planned_key_hashes(tmp_path / "not asked", keyed_header(TOTAL, MAP, key=CUSTOM), "64") == {}


def test_priority_queue_that_does_not_hold_timers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="is no queue of timers") as caught:
        planned_key_hashes(tmp_path, keyed_header(TOTAL, QUEUE), "1000")
    assert (caught.value.operator, caught.value.state) == (operator_id_of_uid(UID), "queue")


def test_operator_whose_keys_are_all_equal_keeps_max_parallelism_1(tmp_path: Path) -> None:
    with pytest.raises(RequestError) as caught:
        plan_rescale(str(snapshots.directory("1.20-windows")), str(tmp_path / "target"), max_parallelism=["all=128"])
    assert caught.value.operator == operator_id_of_uid("all")
    assert str(caught.value.found).startswith("one key in ")
