"""A single misread raises a store error that names the side; lasting damage, an integrity or snapshot error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from rescale.execution.steps import validate_coverage
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.metadata.handles import DistributionMode
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.snapshot.locate import Extent
from rescale.snapshot.reading.opening import open_snapshot
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.contract import Pin
from rescale.storage.files.local_store import LocalStore
from rescale.text.errors import IntegrityError, RescaleError, SnapshotError, StoreError
from support import snapshots
from support.finished import CANONICAL, HEAP, LAZY_COMPRESSED
from support.pipeline import move, plan_rescale
from support.slow import slow

at_most = pytest.mark.parametrize("at_most", [4, slow(8)])
"""Number of reads of a validation that are spoilt in turn, the first and the last among them."""

SHAPES = {
    "key groups and elements": (CANONICAL, {"parallelism": ["3"]}),
    "packed key groups under other ids": (LAZY_COMPRESSED, {"parallelism": ["1"]}),
    "records": (CANONICAL, {"parallelism": ["3"], "max_parallelism": ["1000"]}),
    "records of the heap": (HEAP, {"parallelism": ["3"], "max_parallelism": ["1000"]}),
}


@dataclass
class Misreading:
    """Counts reads in chunks and flips a bit in read number `at`; with `for_ever`, also in later reads of that byte."""

    at: int | None = None
    for_ever: bool = False
    reads: int = 0
    place: tuple[str, int] | None = None

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        chunks = SnapshotFiles.chunks

        def misread(files: SnapshotFiles, extent: Extent, *more: int) -> Iterator[bytes]:
            number, self.reads = self.reads, self.reads + 1
            if number == self.at:
                self.place = files.uri(extent), extent.start + extent.length // 2
            begin = extent.start
            for chunk in chunks(files, extent, *more):
                flips = self.place is not None and files.uri(extent) == self.place[0]
                yield flipped(chunk, self.place[1] - begin) if flips and (number == self.at or self.for_ever) else chunk
                begin += len(chunk)

        monkeypatch.setattr(SnapshotFiles, "chunks", misread)


def flipped(chunk: bytes, at: int) -> bytes:
    """Flip a bit of the byte at a position, if it lies in this chunk."""
    return b"".join((chunk[:at], bytes([chunk[at] ^ 4]), chunk[at + 1 :])) if 0 <= at < len(chunk) else chunk


@pytest.fixture(params=SHAPES)
def moved(request: pytest.FixtureRequest, tmp_path: Path) -> Plan:
    name, shape = SHAPES[request.param]
    plan = plan_rescale(snapshots.directory(name), str(tmp_path / "target"), **shape)
    move(plan, InProcessTasks())
    return plan


def some_reads(plan: Plan, at_most: int) -> list[int]:
    with pytest.MonkeyPatch.context() as patching:
        misreading = Misreading()
        misreading.install(patching)
        validate_coverage(plan, InProcessTasks())
    step = max(1, (misreading.reads - 1) // (at_most - 1))
    return list(range(0, misreading.reads, step))


def copies_of_the_source(plan: Plan) -> list[tuple[str, Extent]]:
    """Return where the broadcast copies of the source lie. If one is misread, the result's still equal another one."""
    source = open_snapshot(plan.source)
    return [
        (source.contents.uri(element), element)
        for operator in source.operators
        for stream in (*operator.element_streams, *operator.raw_element_streams)
        for state in stream.states
        if state.mode is DistributionMode.BROADCAST
        for element in state.elements
    ]


def outcomes(plan: Plan, at_most: int, *, for_ever: bool) -> Iterator[tuple[Misreading, RescaleError]]:
    copies = copies_of_the_source(plan)
    for at in some_reads(plan, at_most):
        misreading = Misreading(at, for_ever)
        with pytest.MonkeyPatch.context() as patching:
            misreading.install(patching)
            try:
                validate_coverage(plan, InProcessTasks())
            except RescaleError as error:
                yield misreading, error
                continue
        assert misreading.place is not None
        uri, at = misreading.place
        assert any(uri == copied and e.start <= at < e.start + e.length for copied, e in copies), misreading


@at_most
def test_single_misread_raises_store_error(moved: Plan, at_most: int) -> None:
    errors = list(outcomes(moved, at_most, for_ever=False))
    for misreading, error in errors:
        assert isinstance(error, StoreError), (misreading, error)
        assert misreading.place is not None
        side = "result" if misreading.place[0].startswith(moved.target) else "source"
        assert error.what == f"two reads of the {side} differ"
    assert len(errors) > at_most // 2
    assert validate_coverage(moved, InProcessTasks()).verdict == "complete"


@at_most
def test_lasting_damage_raises_integrity_or_snapshot_error(moved: Plan, at_most: int) -> None:
    errors = list(outcomes(moved, at_most, for_ever=True))
    assert all(isinstance(error, IntegrityError | SnapshotError) for _, error in errors), errors
    assert len(errors) > at_most // 2


@dataclass
class Opening:
    """Counts reads of `_metadata`, candidate, headers and MANIFESTs, and flips a bit in read number `at`."""

    at: int | None = None
    reads: int = 0

    def misread_once(self, data: bytes) -> bytes:
        number, self.reads = self.reads, self.reads + 1
        return flipped(data, len(data) // 2) if number == self.at else data

    def validate(self, plan: Plan, proof: Proof) -> None:
        read, read_all = SnapshotFiles.read, LocalStore.read_all

        def read_extent(files: SnapshotFiles, extent: Extent, *more: int) -> bytes:
            return self.misread_once(read(files, extent, *more))

        def read_whole(store: LocalStore, uri: str, *more: Any) -> tuple[bytes, Pin]:
            data, pin = read_all(store, uri, *more)
            return self.misread_once(data) if uri.endswith(("/_metadata", "/candidate")) else data, pin

        with patch.object(SnapshotFiles, "read", read_extent), patch.object(LocalStore, "read_all", read_whole):
            validate_coverage(plan, InProcessTasks(), proof)


@at_most
@pytest.mark.parametrize(("name", "proof"), [(CANONICAL, Proof.RECORDS), ("2-rocksdb-2to3", Proof.FILES)])
def test_single_misread_of_metadata_header_or_manifest_raises_store_error(
    name: str, proof: Proof, at_most: int, tmp_path: Path
) -> None:
    plan = plan_rescale(snapshots.directory(name), str(tmp_path / "target"), ["2" if proof is Proof.FILES else "3"])
    move(plan, InProcessTasks())
    whole = Opening()
    whole.validate(plan, proof)
    errors = []
    for at in range(0, whole.reads, -(-whole.reads // (2 * at_most))):
        try:
            Opening(at).validate(plan, proof)
        except RescaleError as error:
            errors.append(error)
    assert all(isinstance(error, StoreError) and "two reads of the" in error.what for error in errors)
    assert len(errors) > at_most // 2
