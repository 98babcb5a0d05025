"""Flink serializes and hashes random keys. Rescale finds the same ends and hashes in the bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from oracle.harness import Flink
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.keys.java_hash import WalkedKeys, key_groups_of_hashes, walk_keys
from rescale.flink.keys.key_hash import KeyHash, choose_hash, known_hash, named_hash
from rescale.flink.release_line import ReleaseLine, kryo_of_writer
from rescale.flink.serializers.program import Program, compile_program
from rescale.flink.serializers.reading import read_snapshot
from rescale.text.errors import UnsupportedError

KEY_COUNT = 5_000
MAX_PARALLELISM = 1_000
FORMULA_BY_TYPE = {
    "POJO by Objects.hash": "objects-hash(area,number,town)",
    "POJO in its own order": "objects-hash(train,coach,mark,place)",
    "POJO as of Lombok": "lombok(boolean open,balance,owner)",
    "POJO as a record": "record(sensor,at,valid)",
    "POJO by its id": "record(id)",
    "POJO by HashCodeBuilder": "17x37(origin,destination,boolean charter)",
    "POJO of POJOs": "objects-hash(where,guest)(name,age)(area,number,town)",
    "POJO in a tuple": "objects-hash(area,number,town)",
}
"""Formulas that fit keys with a user-defined `hashCode`."""

GUESS_ERROR_BY_TYPE = {"POJO of an enum": "contain an enum", "POJO beyond guessing": "no formula fits"}
WALK_ERROR_BY_TYPE = {"POJO of subclasses": "an object of a subclass of its POJO, which cannot be delimited"}
"""Errors of types whose keys cannot be delimited."""

TYPES_WITHOUT_KNOWN_HASH = {
    *FORMULA_BY_TYPE,
    *GUESS_ERROR_BY_TYPE,
    *WALK_ERROR_BY_TYPE,
    *("Enum", "StringValue", "Map", "External row"),
    *("VoidNamespace", "TimeWindow", "GlobalWindow", "CountWindow", "SQL's TimeWindow"),
}
"""Types with a user-defined hash, or one that differs between JVMs, and types that cannot be keys."""

BYTES_BEHIND_KEY = b"\xff\x00\xff"
"""Bytes after the key in a composite key."""


@dataclass(frozen=True)
class Keys:
    """Keys of a type, serialized by Flink one after the other, each followed by `BYTES_BEHIND_KEY`."""

    name: str
    answer: dict[str, Any]
    kryo_version: int

    @cached_property
    def snapshot(self) -> Any:
        return read_snapshot(ByteReader(bytes.fromhex(self.answer["snapshot"]))).with_kryo(self.kryo_version)

    @cached_property
    def serialized(self) -> list[bytes]:
        return [bytes.fromhex(key) for key in self.answer["keys"]]

    @cached_property
    def arrays(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the data, where each key starts, and where the bytes behind it end."""
        sizes = np.array([len(key) for key in self.serialized], np.int64)
        limits = np.cumsum(sizes + len(BYTES_BEHIND_KEY))
        return (
            np.frombuffer(BYTES_BEHIND_KEY.join([*self.serialized, b""]), np.uint8),
            limits - sizes - len(BYTES_BEHIND_KEY),
            limits,
        )

    def walk(self, program: Program) -> WalkedKeys:
        return walk_keys(program, *self.arrays)

    def choose(self) -> KeyHash:
        return choose_hash(self.snapshot, *self.arrays, np.array(self.answer["groups"]), MAX_PARALLELISM)


def keys_of(flink: Flink, name: str) -> Keys:
    answer = flink.command("keys", type=name, seed=1, count=KEY_COUNT, max_parallelism=MAX_PARALLELISM)
    return Keys(name, answer, kryo_of_writer(ReleaseLine.parse(flink.version).metadata_version))


def test_ends_and_hashes_of_keys_are_those_of_flink(flink: Flink) -> None:
    types = flink.command("key_types")
    assert set(types) >= TYPES_WITHOUT_KNOWN_HASH
    for name in types:
        keys = keys_of(flink, name)
        program = compile_program(keys.snapshot)
        length = keys.answer["length"]
        assert (name, program.fixed_length) == (name, None if length < 0 else length)
        assert (name, program.hashable) == (name, name not in TYPES_WITHOUT_KNOWN_HASH)
        walked = keys.walk(program)
        if name in WALK_ERROR_BY_TYPE:
            assert (name, walked.first_error()) == (name, (0, WALK_ERROR_BY_TYPE[name]))
            continue
        assert (name, walked.first_error()) == (name, None)
        _, starts, _ = keys.arrays
        assert (name, (walked.ends - starts).tolist()) == (name, list(map(len, keys.serialized)))
        if walked.hash_codes is not None:
            assert (name, walked.hash_codes.tolist()) == (name, keys.answer["hashes"])
            assert (name, key_groups_of_hashes(walked.hash_codes, MAX_PARALLELISM).tolist()) == (
                name,
                keys.answer["groups"],
            )


def test_formula_is_found_from_keys_and_key_groups(flink: Flink) -> None:
    for name, formula in FORMULA_BY_TYPE.items():
        keys = keys_of(flink, name)
        assert (name, known_hash(keys.snapshot)) == (name, None)
        chosen = keys.choose()
        assert (name, chosen.name) == (name, formula)
        for formula_found in (chosen, named_hash(keys.snapshot, formula)):
            codes = keys.walk(formula_found.program).hash_codes
            assert codes is not None
            assert (name, codes.tolist()) == (name, keys.answer["hashes"])


def test_keys_that_no_formula_fits_are_refused(flink: Flink) -> None:
    for name, message in GUESS_ERROR_BY_TYPE.items():
        with pytest.raises(UnsupportedError, match=message):
            keys_of(flink, name).choose()


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("POJO by Objects.hash", "objects-hash(number,area,town)"),
        ("POJO by Objects.hash", "17x31(area,number,town)"),
        ("POJO in its own order", "objects-hash(coach,mark,place,train)"),
        ("POJO as of Lombok", "lombok(balance,boolean open,owner)"),
        ("POJO as of Lombok", "1x59(boolean open,balance,owner)"),
        ("POJO as a record", "record(sensor,at,boolean valid)"),
        ("POJO by its id", "record(country,id)"),
    ],
)
def test_other_formulas_do_not_fit_all_keys(flink: Flink, name: str, formula: str) -> None:
    keys = keys_of(flink, name)
    codes = keys.walk(named_hash(keys.snapshot, formula).program).hash_codes
    assert codes is not None
    assert key_groups_of_hashes(codes, MAX_PARALLELISM).tolist() != keys.answer["groups"]
