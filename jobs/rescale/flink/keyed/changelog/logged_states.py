"""What a changelog says of its states: it describes each before the first change of it (`AbstractStateChangeLogger`).

    8:u8  version:i32  StateMetaInfo  time to live and default value  stateId:i16  kind:u8

The id is the log's own; the name says which state it is. Time to live and default value are the job's concern.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from rescale.errors import SnapshotError, UnsupportedError
from rescale.flink.advice import MATERIALISED
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.state_meta_info import StateMetaInfo, read_state_meta_info

_VERSIONS = (6, 7)
"""`StateMetaInfoSnapshotReadersWriters`: both are written alike."""

_TAIL = struct.Struct(">hB")
_CHANGE_HEAD = struct.Struct(">Bh")

CHANGE_HEAD_SIZE = _CHANGE_HEAD.size


class Operation(IntEnum):
    """The codes of `StateChangeOperation`."""

    CLEAR = 0
    SET = 1
    SET_INTERNAL = 2
    ADD = 3
    MERGE_NS = 4
    ADD_ELEMENT = 5
    ADD_OR_UPDATE_ELEMENT = 6
    REMOVE_ELEMENT = 7
    METADATA = 8


class LoggedState(NamedTuple):
    """A state under the id that the changes call it by."""

    id: int
    info: StateMetaInfo


def read_logged_state(change: bytes) -> LoggedState:
    """`SnapshotError` where the change describes no state, `UnsupportedError` where it does otherwise than is known."""
    reader = ByteReader(change)
    operation = reader.u8()
    if operation != Operation.METADATA:
        raise UnsupportedError(
            "an entry of the changelog that is of no key group, and does not describe a state",
            expected=f"{Operation.METADATA.name} ({Operation.METADATA})",
            found=operation_name(operation),
            advice=MATERIALISED,
        )
    version = reader.i32()
    if version not in _VERSIONS:
        raise UnsupportedError(
            "a changelog describes its states in an unknown version",
            expected=" or ".join(map(str, _VERSIONS)),
            found=version,
            advice=MATERIALISED,
        )
    info = read_state_meta_info(reader)
    if reader.remaining < _TAIL.size:
        raise reader.error("the description of a state in a changelog ends too early", found=reader.remaining)
    state_id, _ = _TAIL.unpack_from(change, len(change) - _TAIL.size)
    return LoggedState(state_id, info)


def read_change_head(change: bytes) -> tuple[int, int]:
    """The code of its operation, and the id of its state."""
    if len(change) < CHANGE_HEAD_SIZE:
        raise SnapshotError("a change in a changelog ends too early", found=f"{len(change)} bytes")
    operation, state_id = _CHANGE_HEAD.unpack_from(change)
    return operation, state_id


def operation_name(code: int) -> str:
    return Operation(code).name if code in Operation._value2member_map_ else f"operation {code}"
