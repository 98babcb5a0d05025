"""Written handles: the state handles of new streams that a moving step wrote, in the encoding of `_metadata`.

A moving step writes them as its last document. If every file that the handles name exists in full, a later run uses the
handles instead of moving the state again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from rescale.flink.metadata.handles import (
    IncrementalHandle,
    KeyGroupsHandle,
    OperatorHandle,
    RelativeFileStream,
    Stream,
)
from rescale.flink.metadata.reader import read_keyed_handle, read_operator_handle
from rescale.flink.slot import Slot
from rescale.plan.plan import Plan
from rescale.runstate.documents import put_document, read_document
from rescale.runstate.places import places_of
from rescale.runstate.states import State, Transition, permit
from rescale.storage.store import exists, open_store
from rescale.text.advice import Advice, command
from rescale.text.errors import DECODE_ERRORS, IntegrityError
from rescale.text.names import quoted


class WrittenHandle(NamedTuple):
    """The state handle of one new stream, in the encoding of `_metadata`."""

    operator_id: str
    slot: Slot
    subtask: int
    handle: bytes


@dataclass(frozen=True)
class WrittenHandles:
    """The handles of one moving step, `keyed` or `operator`; `plan` is the digest of the executed plan."""

    step: str
    plan: str
    handles: tuple[WrittenHandle, ...]

    @property
    def files(self) -> dict[str, int]:
        """Sizes in bytes of the files that the handles point to, by name."""
        return {
            stream.path: stream.size
            for handle in self.handles
            for stream in _streams_of(handle, self.step)
            if isinstance(stream, RelativeFileStream)
        }


def begin_moving(plan: Plan, step: str, existing_sizes: Mapping[str, int]) -> WrittenHandles | None:
    """Return the handles that an earlier attempt of the step wrote; None unless all their files exist in full.

    Raises `RequestError` if the target is not the plan's, and `IntegrityError` if a published result is incomplete.
    """
    state = permit(plan, Transition.MOVE)
    handles = read_handles(plan, step)
    missing_files = _missing_files(plan, handles.files, existing_sizes) if handles is not None else []
    if handles is not None and not missing_files:
        return handles
    if state in (State.PUBLISHED, State.PUBLISHING):
        raise IntegrityError(
            "the published result is incomplete"
            if state is State.PUBLISHED
            else "the result is incomplete, although it may have been published",
            path=places_of(plan).stream(missing_files[0]) if missing_files else places_of(plan).written_handles(step),
            found=f"{len(missing_files)} files are missing or truncated"
            if missing_files
            else "no list of the written files",
            advice="Rescale never writes into a published result: name another target and run again",
        )
    return None


def _missing_files(plan: Plan, files: Mapping[str, int], existing_sizes: Mapping[str, int]) -> list[str]:
    """Return the names of files that are missing or have another size, both in `existing_sizes` and in the store."""
    missing_files = [file for file, size in files.items() if existing_sizes.get(file) != size]
    pins = open_store(plan.target).stats([places_of(plan).stream(file) for file in missing_files])
    return [file for file, pin in zip(missing_files, pins, strict=True) if pin is None or pin.size != files[file]]


def write_handles(plan: Plan, handles: WrittenHandles) -> None:
    """Write the handles of a moving step, as the last action of the step."""
    permit(plan, Transition.MOVE)
    put_document(places_of(plan).written_handles(handles.step), msgspec.json.encode(handles))


def read_handles(plan: Plan, step: str) -> WrittenHandles | None:
    """Return the handles of a moving step; None before they are written.

    Raises `IntegrityError` if they are another plan's.
    """
    uri = places_of(plan).written_handles(step)
    if not exists(uri):
        return None
    try:
        handles = msgspec.json.decode(read_document(uri), type=WrittenHandles)
    except DECODE_ERRORS as error:
        raise IntegrityError(
            f"the handles of written files cannot be read: {error}", path=uri, advice=_discard_advice(plan)
        ) from None
    if handles.plan != plan.digest:
        raise IntegrityError(
            "the handles of written files belong to another plan",
            path=uri,
            expected=plan.digest,
            found=handles.plan,
            advice=_discard_advice(plan),
        )
    return handles


def _discard_advice(plan: Plan) -> Advice:
    return Advice("remove the files of that run, then run again: ", command("discard", quoted(plan.target)))


def _streams_of(written_handle: WrittenHandle, path: str) -> list[Stream]:
    read_handle = read_keyed_handle if written_handle.slot.is_keyed else read_operator_handle
    handle = read_handle(written_handle.handle, path)
    if isinstance(handle, IncrementalHandle):
        return [handle.meta, *(file.stream for file in handle.private)]
    return [handle.stream] if isinstance(handle, KeyGroupsHandle | OperatorHandle) else []
