"""Written handles: the state handles of new streams that a moving step wrote, as they will stand in `_metadata`.

They are the last thing that a moving step leaves. A run that finds them goes on with what they say, if every file that
they name is there with its size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from rescale.errors import IntegrityError
from rescale.flink.metadata.handles import (
    IncrementalHandle,
    KeyGroupsHandle,
    OperatorHandle,
    RelativeFileStream,
    Stream,
)
from rescale.flink.metadata.reader import read_keyed_handle, read_operator_handle
from rescale.flink.slot import Slot
from rescale.names import quoted
from rescale.planning.values.plan import Plan
from rescale.storage.store import open_store
from rescale.target.documents import read_document
from rescale.target.places import places_of
from rescale.target.states import Move, State, permit


class WrittenHandle(NamedTuple):
    """A handle in the encoding of `_metadata`."""

    operator_id: str
    slot: Slot
    subtask: int
    handle: bytes


@dataclass(frozen=True)
class WrittenHandles:
    """Those of one moving step, `keyed` or `operator`; `plan` is the digest of the plan that was executed."""

    step: str
    plan: str
    handles: tuple[WrittenHandle, ...]

    @property
    def files(self) -> dict[str, int]:
        """The names of the files that they point to, with their sizes in bytes."""
        return {
            stream.path: stream.size
            for written in self.handles
            for stream in _streams(written, self.step)
            if isinstance(stream, RelativeFileStream)
        }


def begin_moving(plan: Plan, step: str, there: Mapping[str, int]) -> WrittenHandles | None:
    """What an earlier try of a moving step left, if all is `there` (files by name, with their sizes); else None.

    `RequestError` if the plan does not have the target, `IntegrityError` if what was published is not whole.
    """
    state = permit(plan, Move.MOVE)
    handles = read_handles(plan, step)
    gone = _gone(plan, handles.files, there) if handles is not None else []
    if handles is not None and not gone:
        return handles
    if state in (State.PUBLISHED, State.PUBLISHING):
        raise IntegrityError(
            "the target is published, and not whole"
            if state is State.PUBLISHED
            else "the target was about to be published, and may have been, and is not whole",
            path=places_of(plan).stream(gone[0]) if gone else places_of(plan).written_handles(step),
            found=f"{len(gone)} files are gone or cut" if gone else "nothing says what was written",
            advice="nothing is written into a published result: name another target and run again",
        )
    return None


def _gone(plan: Plan, files: Mapping[str, int], there: Mapping[str, int]) -> list[str]:
    """Of the files, by name, those that are not there with their sizes. Who is missed in a listing is asked for."""
    missed = [file for file, size in files.items() if there.get(file) != size]
    found = open_store(plan.target).stats([places_of(plan).stream(file) for file in missed])
    return [file for file, pin in zip(missed, found, strict=True) if pin is None or pin.size != files[file]]


def write_handles(plan: Plan, handles: WrittenHandles) -> None:
    """The end of a moving step."""
    permit(plan, Move.MOVE)
    uri = places_of(plan).written_handles(handles.step)
    open_store(uri).put(uri, msgspec.json.encode(handles))


def read_handles(plan: Plan, step: str) -> WrittenHandles | None:
    """The handles if they were written already; `IntegrityError` if they are another plan's."""
    uri = places_of(plan).written_handles(step)
    if open_store(uri).stat(uri) is None:
        return None
    try:
        handles = msgspec.json.decode(read_document(uri), type=WrittenHandles)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise IntegrityError(f"written handles that cannot be read: {error}", path=uri, advice=_anew(plan)) from None
    if handles.plan != plan.digest:
        raise IntegrityError(
            "written handles that another plan left",
            path=uri,
            expected=plan.digest,
            found=handles.plan,
            advice=_anew(plan),
        )
    return handles


def _anew(plan: Plan) -> str:
    return f"remove what that run left, and run again: rescale discard {quoted(plan.target)}"


def _streams(written: WrittenHandle, path: str) -> list[Stream]:
    read = read_keyed_handle if written.slot.is_keyed else read_operator_handle
    handle = read(written.handle, path)
    if isinstance(handle, IncrementalHandle):
        return [handle.meta, *(file.stream for file in handle.private)]
    return [handle.stream] if isinstance(handle, KeyGroupsHandle | OperatorHandle) else []
