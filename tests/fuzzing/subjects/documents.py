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
_LARGEST_SEED_BYTES = 6 * 1024
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
    for run_index, run in enumerate(_runs()):
        yield bytes((_CLAIM, run_index, 0, 0)) + run.claim
        for handles_index, handles in enumerate(run.handles):
            if len(document := msgspec.json.encode(handles, order="deterministic")) <= _LARGEST_SEED_BYTES:
                yield bytes((_HANDLES, run_index, handles_index, 0)) + document
            for handle_index, entry in enumerate(handles.handles[:3]):
                yield bytes((_ONE_HANDLE, run_index, handles_index, handle_index)) + entry.handle


def _look(data: bytes) -> None:
    head, data = data[:4].ljust(4, b"\0"), data[4:]
    run = _runs()[head[1] % len(_SOURCES)]
    if head[0] % 3 == _CLAIM:
        claim_path = Path(places_of(run.plan).claim)
        try:
            claim_path.write_bytes(data)
            claim_on(run.plan.target)
        finally:
            claim_path.write_bytes(run.claim)
        return
    handles_index = head[2] % len(run.handles)
    if head[0] % 3 == _ONE_HANDLE and run.handles[handles_index].handles:
        data = msgspec.json.encode(
            _with_replaced_handle(run.handles[handles_index], head[3], data), order="deterministic"
        )
    Path(places_of(run.plan).written_handles(run.handles[handles_index].step)).write_bytes(data)
    written_handles = read_handles(run.plan, run.handles[handles_index].step)
    assert written_handles is not None
    assert all(size >= 0 for size in written_handles.files.values())
    read_metadata(
        build_candidate(
            run.source, run.plan, [*run.handles[:handles_index], written_handles, *run.handles[handles_index + 1 :]]
        ),
        "candidate",
    )


def _with_replaced_handle(handles: WrittenHandles, handle_index: int, data: bytes) -> WrittenHandles:
    handle_index %= len(handles.handles)
    changed_handles = (
        *handles.handles[:handle_index],
        handles.handles[handle_index]._replace(handle=data),
        *handles.handles[handle_index + 1 :],
    )
    return WrittenHandles(handles.step, handles.plan, changed_handles)


SUBJECT = Subject(_seeds, _look, (IntegrityError, RequestError, SnapshotError, UnsupportedError, StoreError))
