"""Write a canonical savepoint of any size: one operator with ValueState<byte[]>, and optional operator state."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from rescale.flink.encoding.binary import ByteWriter
from rescale.flink.key_groups import key_group_range, prefix_size
from rescale.flink.keyed.blocks.record_marks import END_OF_GROUP, NEXT_ID_FLAG
from rescale.flink.metadata.checkpoint_metadata import Metadata, OperatorState, Subtask, SubtaskState
from rescale.flink.metadata.handles import (
    DistributionMode,
    InlineStream,
    KeyGroupsHandle,
    OperatorHandle,
    OperatorStateOffsets,
    RelativeFileStream,
)
from rescale.flink.metadata.properties import savepoint_properties
from rescale.flink.metadata.writer import write_metadata
from rescale.flink.operator_id import operator_id_of_uid

_BASE = "org.apache.flink.api.common.typeutils.base."
_LONG = _BASE + "LongSerializer$LongSerializerSnapshot"
_STRING = _BASE + "StringSerializer$StringSerializerSnapshot"
_BYTES = _BASE + "array.BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot"
_VOID = "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot"
_KEYS_AT_ONCE = 1 << 16


def write_savepoint(
    directory: Path,
    size: int,
    *,
    value_size: int = 1000,
    parallelism: int = 4,
    max_parallelism: int = 128,
    keys: str = "long",
    states: int = 1,
    elements: int = 0,
) -> None:
    """Write about `size` bytes of records with values of `value_size` bytes, in `parallelism` files.

    `keys` is "long", or "string" for strings of twelve letters. Each key is in only one of the `states`. With
    `elements`, every subtask has that many elements of a split and of a union state, and a copy of a broadcast state,
    in `_metadata`.
    """
    directory.mkdir(parents=True)
    numbers = np.arange(size // (value_size + 30), dtype=np.int64)
    key_bytes, codes = _long_keys(numbers) if keys == "long" else _string_keys(numbers)
    groups = key_groups_of(codes, max_parallelism)
    key_bytes = key_bytes[np.argsort(groups, kind="stable")]
    group_ends = np.cumsum(np.bincount(groups, minlength=max_parallelism)).tolist()
    prefix_length = prefix_size(max_parallelism)
    subtasks = []
    for subtask in range(parallelism):
        key_groups = key_group_range(max_parallelism, parallelism, subtask)
        name = f"keyed-{subtask}"
        offsets = []
        with (directory / name).open("wb") as file:
            file.write(_header(_LONG if keys == "long" else _STRING, states))
            for key_group in range(key_groups.first, key_groups.last + 1):
                group_keys = key_bytes[group_ends[key_group - 1] if key_group else 0 : group_ends[key_group]]
                offsets.append(file.tell() if len(group_keys) else 0)
                _write_group(file, key_group, prefix_length, np.array_split(group_keys, states), value_size)
            file_size = file.tell()
        handle = KeyGroupsHandle(7, key_groups.first, tuple(offsets), RelativeFileStream(name, file_size))
        operator_handle = _operator_state(subtask, elements) if elements else None
        subtasks.append(Subtask(subtask, False, SubtaskState(managed_operator=operator_handle, managed_keyed=handle)))
    operator = OperatorState(operator_id_of_uid("big"), "", "", parallelism, max_parallelism, None, tuple(subtasks))
    metadata = Metadata(4, 1, (), (operator,), savepoint_properties(is_canonical=True))
    (directory / "_metadata").write_bytes(write_metadata(metadata))


def _long_keys(numbers: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint32]]:
    """Return the serialized keys (one row each), and their `hashCode`s."""
    return numbers.astype(">i8").view(np.uint8).reshape(-1, 8), (numbers ^ numbers >> 32).astype(np.uint32)


def _string_keys(numbers: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint32]]:
    """Return serialized strings (one row each), numbers in the letters a to p, and their `hashCode`s."""
    letters = (numbers[:, None] >> np.arange(44, -4, -4) & 15).astype(np.uint8) + ord("a")
    codes = np.zeros(len(numbers), np.uint32)
    for letter in letters.T:
        codes = codes * np.uint32(31) + letter
    return np.insert(letters, 0, letters.shape[1] + 1, axis=1), codes


def key_groups_of(code: npt.NDArray[np.uint32], max_parallelism: int) -> npt.NDArray[np.int64]:
    """Return the key groups of keys from their `hashCode`s (Flink's `MathUtils.murmurHash`, modulo)."""
    with np.errstate(over="ignore"):
        mixed = code * np.uint32(0xCC9E2D51)
        mixed = (mixed << np.uint32(15) | mixed >> np.uint32(17)) * np.uint32(0x1B873593)
        mixed = (mixed << np.uint32(13) | mixed >> np.uint32(19)) * np.uint32(5) + np.uint32(0xE6546B64)
        mixed ^= np.uint32(4)
        mixed = (mixed ^ mixed >> np.uint32(16)) * np.uint32(0x85EBCA6B)
        mixed = (mixed ^ mixed >> np.uint32(13)) * np.uint32(0xC2B2AE35)
        mixed ^= mixed >> np.uint32(16)
    signed = mixed.astype(np.int32).astype(np.int64)
    return np.where(signed == -(1 << 31), 0, np.abs(signed)) % max_parallelism


def _operator_state(subtask: int, elements: int) -> OperatorHandle:
    out = ByteWriter()
    out.i32(6)
    out.boolean(False)
    out.i16(2)
    lists = (DistributionMode.SPLIT_DISTRIBUTE, DistributionMode.UNION)
    for mode in lists:
        _operator_state_header(out, mode, 1, ("VALUE_SERIALIZER",))
    out.i16(1)
    _operator_state_header(out, DistributionMode.BROADCAST, 2, ("KEY_SERIALIZER", "VALUE_SERIALIZER"))
    content, states = bytearray(out.bytes()), []
    for mode in lists:
        begin, numbers = len(content), range(subtask * elements, (subtask + 1) * elements)
        content += b"".join(number.to_bytes(8, "big") for number in numbers)
        states.append(OperatorStateOffsets(mode.name, mode, tuple(range(begin, len(content), 8))))
    states.append(OperatorStateOffsets(DistributionMode.BROADCAST.name, DistributionMode.BROADCAST, (len(content),)))
    content += (0).to_bytes(4, "big")
    return OperatorHandle(tuple(states), InlineStream(f"operator-{subtask}", bytes(content)), None)


def _operator_state_header(out: ByteWriter, mode: DistributionMode, kind: int, serializers: tuple[str, ...]) -> None:
    """Write the header of an operator state that is named after its distribution mode."""
    out.utf(mode.name)
    out.i32(kind)
    out.i32(1)
    out.utf("OPERATOR_STATE_DISTRIBUTION_MODE")
    out.utf(mode.name)
    out.i32(len(serializers))
    for serializer in serializers:
        out.utf(serializer)
        _serializer(out, _LONG)


def _header(key_serializer: str, states: int) -> bytes:
    out = ByteWriter()
    out.i32(6)
    out.boolean(False)
    _serializer(out, key_serializer)
    out.i16(states)
    for state in range(states):
        out.utf(f"value {state}")
        out.i32(0)
        out.i32(1)
        out.utf("KEYED_STATE_TYPE")
        out.utf("VALUE")
        out.i32(2)
        out.utf("VALUE_SERIALIZER")
        _serializer(out, _BYTES)
        out.utf("NAMESPACE_SERIALIZER")
        _serializer(out, _VOID)
    return out.bytes()


def _serializer(out: ByteWriter, class_name: str) -> None:
    out.i32(2)
    out.utf(class_name)
    out.i32(3)


def _write_group(
    file: BinaryIO, key_group: int, prefix_length: int, states: list[npt.NDArray[np.uint8]], value_size: int
) -> None:
    """Write the records of a key group, state by state; values are random, so that they cannot be compressed."""
    random = np.random.default_rng(key_group)
    nonempty_states = [(state, keys) for state, keys in enumerate(states) if len(keys)]
    for i, (state, keys) in enumerate(nonempty_states):
        if i == 0:
            file.write(state.to_bytes(2, "big"))
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            rows = _records(keys[start : start + _KEYS_AT_ONCE], key_group, prefix_length, value_size, random)
            if start + _KEYS_AT_ONCE >= len(keys):
                rows["key_group"][-1] |= NEXT_ID_FLAG << 8 * (prefix_length - 1)
            file.write(rows.tobytes())
        following = nonempty_states[i + 1][0] if i + 1 < len(nonempty_states) else END_OF_GROUP
        file.write(following.to_bytes(2, "big"))


def _records(
    keys: npt.NDArray[np.uint8], key_group: int, prefix_length: int, value_size: int, random: np.random.Generator
) -> npt.NDArray[np.void]:
    record = np.dtype(
        [
            ("key_length", ">i4"),
            ("key_group", f">u{prefix_length}"),
            ("key", "u1", (keys.shape[1],)),
            ("namespace", "u1"),
            ("value_length", ">i4"),
            ("array_length", ">i4"),
            ("value", "u1", (value_size,)),
        ]
    )
    rows = np.zeros(len(keys), dtype=record)
    rows["key_length"], rows["key_group"], rows["key"] = prefix_length + keys.shape[1] + 1, key_group, keys
    rows["value_length"], rows["array_length"] = value_size + 4, value_size
    rows["value"] = random.integers(0, 256, (len(keys), value_size), dtype=np.uint8)
    return rows
