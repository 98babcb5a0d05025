"""Documents beside a target that the next run reads: claims, documents of written handles, and single handles."""

from __future__ import annotations

import shutil
import tempfile
from atexit import register
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from fuzzing.subject import Subject
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.metadata.checkpoint_metadata import Metadata
from rescale.flink.metadata.reader import read_metadata
from rescale.plan.plan import Plan
from rescale.runstate.candidate import build_candidate
from rescale.runstate.places import places_of
from rescale.runstate.states import MOVING_STEPS, claim_on
from rescale.runstate.written_handles import WrittenHandles, read_handles
from rescale.text.errors import IntegrityError, RequestError, SnapshotError, StoreError, UnsupportedError
from support.pipeline import move, plan_rescale
from support.snapshots import directory

_CLAIM, _HANDLES, _ONE_HANDLE = range(3)
_LARGEST_SEED = 6 * 1024
_SOURCES = ("2-clicks", "2-rocksdb-native")


class _Run(NamedTuple):
    plan: Plan
    source: Metadata
    claim: bytes
    handles: tuple[WrittenHandles, ...]


@cache
def _runs() -> tuple[_Run, ...]:
    folder = tempfile.mkdtemp(prefix="rescale-fuzzing-")
    register(shutil.rmtree, folder, ignore_errors=True)
    runs = []
    for name in _SOURCES:
        plan = plan_rescale(directory(name), f"{folder}/{name}", ["3"])
        move(plan, InProcessTasks())
        metadata = Path(directory(name), "_metadata")
        handles = tuple(written for step in MOVING_STEPS if (written := read_handles(plan, step)) is not None)
        source = read_metadata(metadata.read_bytes(), str(metadata))
        runs.append(_Run(plan, source, Path(places_of(plan).claim).read_bytes(), handles))
    return tuple(runs)


def _seeds() -> Iterator[bytes]:
    """Yield seeds: kind, number of the run, of the document and of the handle, and bytes."""
    for number, run in enumerate(_runs()):
        yield bytes((_CLAIM, number, 0, 0)) + run.claim
        for at, handles in enumerate(run.handles):
            if len(document := msgspec.json.encode(handles, order="deterministic")) <= _LARGEST_SEED:
                yield bytes((_HANDLES, number, at, 0)) + document
            for which, written in enumerate(handles.handles[:3]):
                yield bytes((_ONE_HANDLE, number, at, which)) + written.handle


def _look(data: bytes) -> None:
    head, data = data[:4].ljust(4, b"\0"), data[4:]
    run = _runs()[head[1] % len(_SOURCES)]
    if head[0] % 3 == _CLAIM:
        place = Path(places_of(run.plan).claim)
        try:
            place.write_bytes(data)
            claim_on(run.plan.target)
        finally:
            place.write_bytes(run.claim)
        return
    at = head[2] % len(run.handles)
    if head[0] % 3 == _ONE_HANDLE and run.handles[at].handles:
        data = msgspec.json.encode(_with_handle(run.handles[at], head[3], data), order="deterministic")
    Path(places_of(run.plan).written_handles(run.handles[at].step)).write_bytes(data)
    written = read_handles(run.plan, run.handles[at].step)
    assert written is not None
    assert all(size >= 0 for size in written.files.values())
    read_metadata(
        build_candidate(run.source, run.plan, [*run.handles[:at], written, *run.handles[at + 1 :]]), "candidate"
    )


def _with_handle(handles: WrittenHandles, which: int, data: bytes) -> WrittenHandles:
    which %= len(handles.handles)
    changed = (*handles.handles[:which], handles.handles[which]._replace(handle=data), *handles.handles[which + 1 :])
    return WrittenHandles(handles.step, handles.plan, changed)


SUBJECT = Subject(_seeds, _look, (IntegrityError, RequestError, SnapshotError, UnsupportedError, StoreError))
