"""Reader and writer of operators and their subtasks (`serializeOperatorState`, `serializeSubtaskState`).

Version 2 still has three fields of older formats. Flink writes constants into these fields and ignores them when it
reads. This reader refuses other values in these fields, because the writer would lose the values. From version 3 on, a
count of -1 marks an operator whose subtasks have all finished, and the index -i-1 marks a finished subtask i.
"""

from __future__ import annotations

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.key_groups import UPPER_BOUND_MAX_PARALLELISM
from rescale.flink.metadata.channel_handles import INPUT_TYPES, OUTPUT_TYPES, read_channels, write_channels
from rescale.flink.metadata.checkpoint_metadata import (
    FIRST_VERSION_WITH_COORDINATORS,
    FIRST_VERSION_WITH_NAMES,
    OperatorState,
    Subtask,
    SubtaskState,
)
from rescale.flink.metadata.handles import InlineStream, OperatorHandle
from rescale.flink.metadata.keyed_handles import read_keyed, write_keyed
from rescale.flink.metadata.operator_handles import read_operator, write_operator
from rescale.flink.metadata.stream_handles import read_optional_stream, write_stream
from rescale.text.errors import UnsupportedError, located

_FULLY_FINISHED = -1
_V2_CHAIN_LENGTH = 1
_V2_DURATION = -1
_V2_LEGACY_STATE_COUNT = 0


def read_operator_states(reader: ByteReader, version: int) -> tuple[OperatorState, ...]:
    """Return the operators of a `_metadata` file of this version.

    Raises `SnapshotError` for damage, and `UnsupportedError` for state that no supported release restores; both name
    the operator.
    """
    operators: dict[str, OperatorState] = {}
    for _ in range(reader.count(item_size=29)):
        at = reader.position
        operator = _read_operator_state(reader, version)
        if operator.operator_id in operators:
            raise reader.error("an operator is listed twice", at=at).located(operator=operator.operator_id)
        operators[operator.operator_id] = operator
    return tuple(operators.values())


def write_operator_states(out: ByteWriter, operators: tuple[OperatorState, ...], version: int) -> None:
    """Write the operators. Raises `UnsupportedError` for an operator with state that this version cannot express."""
    out.i32(len(operators))
    for operator in operators:
        with located(operator=operator.operator_id):
            _write_operator_state(out, operator, version)


def _read_operator_state(reader: ByteReader, version: int) -> OperatorState:
    has_names = version >= FIRST_VERSION_WITH_NAMES
    name, uid = (reader.utf(), reader.utf()) if has_names else ("", "")
    operator_id = reader.raw(16).hex()
    with located(operator=operator_id):
        parallelism, max_parallelism = _read_parallelism(reader)
        coordinator_state = _read_coordinator(reader, version)
        at = reader.position
        subtasks = _read_subtasks(reader, version, parallelism)
        if subtasks is None and coordinator_state is not None:
            raise reader.error("a fully finished operator with coordinator state", at=at)
    return OperatorState(
        operator_id,
        name,
        uid,
        parallelism,
        max_parallelism,
        coordinator_state,
        subtasks=subtasks or (),
        fully_finished=subtasks is None,
    )


def _write_operator_state(out: ByteWriter, operator: OperatorState, version: int) -> None:
    if version >= FIRST_VERSION_WITH_NAMES:
        out.utf(operator.name).utf(operator.uid)
    elif operator.name or operator.uid:
        raise _no_place_error(version, "an operator's name or uid")
    out.raw(bytes.fromhex(operator.operator_id)).i32(operator.parallelism).i32(operator.max_parallelism)
    _write_coordinator(out, operator.coordinator, version)
    _write_subtasks(out, operator, version)


def _read_parallelism(reader: ByteReader) -> tuple[int, int]:
    at = reader.position
    parallelism, max_parallelism = reader.i32(), reader.i32()
    if not 0 < parallelism <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise reader.error(
            "an impossible parallelism or max parallelism",
            at=at,
            expected=f"1 <= parallelism <= max parallelism <= {UPPER_BOUND_MAX_PARALLELISM}",
            found=f"parallelism {parallelism}, max parallelism {max_parallelism}",
        )
    return parallelism, max_parallelism


def _read_coordinator(reader: ByteReader, version: int) -> InlineStream | None:
    at = reader.position
    if version < FIRST_VERSION_WITH_COORDINATORS:
        _check_constant(reader, at, "chain length", _V2_CHAIN_LENGTH, reader.i32())
        return None
    stream = read_optional_stream(reader)
    if stream is not None and not isinstance(stream, InlineStream):
        tag = f"tag {reader.data[at]}"
        raise reader.error("coordinator state is not inline", at=at, expected="tag 0 or 1", found=tag)
    return stream


def _write_coordinator(out: ByteWriter, coordinator_state: InlineStream | None, version: int) -> None:
    if version >= FIRST_VERSION_WITH_COORDINATORS:
        write_stream(out, coordinator_state)
    elif coordinator_state is None:
        out.i32(_V2_CHAIN_LENGTH)
    else:
        raise _no_place_error(version, "coordinator state")


def _read_subtasks(reader: ByteReader, version: int, parallelism: int) -> tuple[Subtask, ...] | None:
    """Return the entries of subtasks; None if the operator is fully finished."""
    at = reader.position
    if version >= FIRST_VERSION_WITH_COORDINATORS and reader.i32() == _FULLY_FINISHED:
        return None
    reader.position = at
    subtasks: dict[int, Subtask] = {}
    for _ in range(reader.count(item_size=4)):
        at = reader.position
        subtask = _read_subtask(reader, version, parallelism)
        if subtask.index in subtasks:
            raise reader.error("a subtask is listed twice", at=at, found=f"subtask {subtask.index}")
        subtasks[subtask.index] = subtask
    return tuple(subtasks.values())


def _write_subtasks(out: ByteWriter, operator: OperatorState, version: int) -> None:
    if not operator.fully_finished:
        out.i32(len(operator.subtasks))
        for subtask in operator.subtasks:
            _write_subtask(out, subtask, version)
    elif version >= FIRST_VERSION_WITH_COORDINATORS:
        out.i32(_FULLY_FINISHED)
    else:
        raise _no_place_error(version, "a finished operator")


def _read_subtask(reader: ByteReader, version: int, parallelism: int) -> Subtask:
    at = reader.position
    stored_index = reader.i32()
    is_finished = stored_index < 0 and version >= FIRST_VERSION_WITH_COORDINATORS
    index = -stored_index - 1 if is_finished else stored_index
    if not 0 <= index < parallelism:
        possible_range = f"0 to {parallelism - 1}"
        raise reader.error("a subtask index out of bounds", at=at, expected=possible_range, found=index)
    return Subtask(index, is_finished, None if is_finished else _read_state(reader, version))


def _write_subtask(out: ByteWriter, subtask: Subtask, version: int) -> None:
    if subtask.state is not None:
        out.i32(subtask.index)
        _write_state(out, subtask.state, version)
    elif version >= FIRST_VERSION_WITH_COORDINATORS:
        out.i32(-subtask.index - 1)
    else:
        raise _no_place_error(version, "a finished subtask")


def _read_state(reader: ByteReader, version: int) -> SubtaskState:
    if version < FIRST_VERSION_WITH_COORDINATORS:
        _read_v2_fields(reader)
    has_channels = version >= FIRST_VERSION_WITH_COORDINATORS
    return SubtaskState(
        managed_operator=_read_slot(reader),
        raw_operator=_read_slot(reader),
        managed_keyed=read_keyed(reader),
        raw_keyed=read_keyed(reader),
        input_channels=read_channels(reader, version, INPUT_TYPES) if has_channels else (),
        output_channels=read_channels(reader, version, OUTPUT_TYPES) if has_channels else (),
    )


def _write_state(out: ByteWriter, state: SubtaskState, version: int) -> None:
    if version < FIRST_VERSION_WITH_COORDINATORS:
        out.i64(_V2_DURATION).i32(_V2_LEGACY_STATE_COUNT)
    _write_slot(out, state.managed_operator)
    _write_slot(out, state.raw_operator)
    write_keyed(out, state.managed_keyed)
    write_keyed(out, state.raw_keyed)
    if version >= FIRST_VERSION_WITH_COORDINATORS:
        write_channels(out, state.input_channels, version, INPUT_TYPES)
        write_channels(out, state.output_channels, version, OUTPUT_TYPES)
    elif state.input_channels or state.output_channels:
        raise _no_place_error(version, "channel state")


def _read_slot(reader: ByteReader) -> OperatorHandle | None:
    """Return the handle in a slot; None for an empty slot. A count of handles (0 or 1) precedes the handle."""
    at = reader.position
    handle_count = reader.i32()
    if handle_count not in (0, 1):
        raise reader.error("a slot with more than one handle", at=at, expected="0 or 1", found=handle_count)
    if handle_count == 0:
        return None
    at = reader.position
    handle = read_operator(reader)
    if handle is None:
        raise reader.error("a slot counts one handle, but contains none", at=at, expected="tag 4 or 17", found="tag 0")
    return handle


def _write_slot(out: ByteWriter, handle: OperatorHandle | None) -> None:
    out.i32(0 if handle is None else 1)
    if handle is not None:
        write_operator(out, handle)


def _read_v2_fields(reader: ByteReader) -> None:
    at = reader.position
    _check_constant(reader, at, "duration", _V2_DURATION, reader.i64())
    at = reader.position
    legacy_state_count = reader.i32()
    if legacy_state_count > 0:
        raise UnsupportedError(
            "an operator has state of Flink 1.1 (`Checkpointed`), which no later release restores",
            path=reader.path,
            offset=at,
            found=f"{legacy_state_count} legacy states",
            advice="take a savepoint without the operators that still use the interface Checkpointed",
        )
    _check_constant(reader, at, "number of legacy states", _V2_LEGACY_STATE_COUNT, legacy_state_count)


def _check_constant(reader: ByteReader, at: int, what: str, expected: int, actual: int) -> None:
    if actual != expected:
        raise reader.error(f"a {what} that Flink never writes", at=at, expected=expected, found=actual)


def _no_place_error(version: int, what: str) -> UnsupportedError:
    return UnsupportedError(f"metadata version {version} has no place for {what}", advice="write a later version")
