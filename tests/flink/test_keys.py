"""Flink serializes and hashes random keys; programs of its own snapshots find the same in the bytes."""

from __future__ import annotations

import numpy as np

from flink.harness import Flink
from rescale.flink.binary import ByteReader
from rescale.flink.java_hash import key_groups_of_hashes, walk_keys
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.reading import read_snapshot

KEYS = 5_000
MAX_PARALLELISM = 1_000
NOT_HASHED = {
    *("Enum", "POJO", "StringValue", "Map"),
    *("VoidNamespace", "TimeWindow", "GlobalWindow", "CountWindow", "SQL's TimeWindow"),
}
"""The hash is the user's own or another in each JVM, or it is no key."""

BEHIND = b"\xff\x00\xff"
"""What follows in a composite key is not the key's."""


def test_keys_end_and_hash_as_in_flink(flink: Flink) -> None:
    types = flink.command("key_types")
    assert set(types) >= NOT_HASHED
    for name in types:
        made = flink.command("keys", type=name, seed=1, count=KEYS, max_parallelism=MAX_PARALLELISM)
        program = compile_program(read_snapshot(ByteReader(bytes.fromhex(made["snapshot"]))))
        length = made["length"]
        assert (name, program.fixed_length) == (name, None if length < 0 else length)
        assert (name, program.hashable) == (name, name not in NOT_HASHED)
        keys = [bytes.fromhex(key) for key in made["keys"]]
        sizes = np.array([len(key) for key in keys], np.int64)
        limits = np.cumsum(sizes + len(BEHIND))
        starts = limits - sizes - len(BEHIND)
        walked = walk_keys(program, np.frombuffer(BEHIND.join([*keys, b""]), np.uint8), starts, limits)
        assert (name, walked.first_wrong()) == (name, None)
        assert (name, (walked.ends - starts).tolist()) == (name, sizes.tolist())
        if walked.codes is not None:
            assert (name, walked.codes.tolist()) == (name, made["hashes"])
            assert (name, key_groups_of_hashes(walked.codes, MAX_PARALLELISM).tolist()) == (name, made["groups"])
