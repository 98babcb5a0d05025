"""A half: the state handles that one of the two moving steps wrote, as they will stand in `_metadata`."""

from __future__ import annotations

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
from rescale.planning.plan import Plan, Slot
from rescale.storage.store import open_store

_LIMIT = 1 << 30


class WrittenHandle(NamedTuple):
    """A handle in the encoding of `_metadata`."""

    operator_id: str
    slot: Slot
    subtask: int
    handle: bytes


@dataclass(frozen=True)
class Half:
    """`name` is `keyed` or `operator`; `plan` is the digest of the plan that was executed."""

    name: str
    plan: str
    handles: tuple[WrittenHandle, ...]


def write_half(plan: Plan, half: Half) -> None:
    uri = plan.places.half(half.name)
    open_store(uri).put(uri, msgspec.json.encode(half, order="deterministic"))


def read_half(plan: Plan, name: str) -> Half | None:
    """The half if it was written already; `IntegrityError` if it is another plan's."""
    uri = plan.places.half(name)
    store = open_store(uri)
    if store.stat(uri) is None:
        return None
    document, _ = store.read_all(uri, _LIMIT)
    try:
        half = msgspec.json.decode(document, type=Half)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise IntegrityError(f"a half that cannot be read: {error}", path=uri) from None
    if half.plan != plan.digest:
        raise IntegrityError("a half that another plan left", path=uri, expected=plan.digest, found=half.plan)
    return half


def files_of_half(half: Half) -> set[str]:
    """The names of the files that its handles point to."""
    return {
        stream.path
        for written in half.handles
        for stream in _streams(written, half.name)
        if isinstance(stream, RelativeFileStream)
    }


def _streams(written: WrittenHandle, path: str) -> list[Stream]:
    read = read_keyed_handle if written.slot.is_keyed else read_operator_handle
    handle = read(written.handle, path)
    if isinstance(handle, IncrementalHandle):
        return [handle.meta, *(file.stream for file in handle.private)]
    return [handle.stream] if isinstance(handle, KeyGroupsHandle | OperatorHandle) else []
