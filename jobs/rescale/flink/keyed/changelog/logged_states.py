"""Descriptions of states in a changelog; one precedes the first change of each state (`AbstractStateChangeLogger`).

    8:u8  version:i32  StateMetaInfo  time to live and default value  stateId:i16  kind:u8

The id is valid only within its log; across logs, the name identifies a state. The reader ignores the time to live and
the default value.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from rescale.flink.advice import MATERIALISE_CHANGELOG
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.state_meta_info import StateMetaInfo, read_state_meta_info
from rescale.text.errors import SnapshotError, UnsupportedError

_VERSIONS = (6, 7)
"""Versions of `StateMetaInfoSnapshotReadersWriters`; their formats are equal."""

_ID_AND_KIND = struct.Struct(">hB")
_CHANGE_HEAD = struct.Struct(">Bh")

CHANGE_HEAD_SIZE = _CHANGE_HEAD.size


class Operation(IntEnum):
    """Operation of a change: the codes of `StateChangeOperation`."""

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
    """A state, and its id in the changes of a log."""

    id: int
    info: StateMetaInfo


def read_logged_state(change: bytes) -> LoggedState:
    """Return the state that a change under key group -1 describes.

    Raises `SnapshotError` if the change is damaged, and `UnsupportedError` if it does not describe a state, or if the
    version of the description is unknown.
    """
    reader = ByteReader(change)
    operation = reader.u8()
    if operation != Operation.METADATA:
        raise UnsupportedError(
            "a changelog entry of key group -1 does not describe a state",
            expected=f"{Operation.METADATA.name} ({Operation.METADATA})",
            found=operation_name(operation),
            advice=MATERIALISE_CHANGELOG,
        )
    version = reader.i32()
    if version not in _VERSIONS:
        raise UnsupportedError(
            "the descriptions of states in a changelog have an unknown version",
            expected=" or ".join(map(str, _VERSIONS)),
            found=version,
            advice=MATERIALISE_CHANGELOG,
        )
    info = read_state_meta_info(reader)
    if reader.remaining < _ID_AND_KIND.size:
        raise reader.error("the description of a state in a changelog ends too early", found=reader.remaining)
    state_id, _ = _ID_AND_KIND.unpack_from(change, len(change) - _ID_AND_KIND.size)
    return LoggedState(state_id, info)


def read_change_head(change: bytes) -> tuple[int, int]:
    """Return the code of the operation, and the id of the state. Raises `SnapshotError` if the change is too short."""
    if len(change) < CHANGE_HEAD_SIZE:
        raise SnapshotError("a change in a changelog ends too early", found=f"{len(change)} bytes")
    operation, state_id = _CHANGE_HEAD.unpack_from(change)
    return operation, state_id


def operation_name(code: int) -> str:
    """Return the name of an operation for a message; the code may be unknown."""
    return Operation(code).name if code in Operation._value2member_map_ else f"operation {code}"
