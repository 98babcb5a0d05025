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

most_reads = pytest.mark.parametrize("most_reads", [4, slow(8)])
"""Number of reads of a validation that are spoilt in turn, the first and the last among them."""

CASES = {
    "key groups and elements": (CANONICAL, {"parallelism": ["3"]}),
    "packed key groups under other ids": (LAZY_COMPRESSED, {"parallelism": ["1"]}),
    "records": (CANONICAL, {"parallelism": ["3"], "max_parallelism": ["1000"]}),
    "records of the heap": (HEAP, {"parallelism": ["3"], "max_parallelism": ["1000"]}),
}


@dataclass
class Misreading:
    """Counts reads in chunks, flips a bit in read `read_index`; if `is_lasting`, also in later reads of that byte."""

    read_index: int | None = None
    is_lasting: bool = False
    reads: int = 0
    uri_and_position: tuple[str, int] | None = None

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        chunks = SnapshotFiles.chunks

        def misread(files: SnapshotFiles, extent: Extent, *more: int) -> Iterator[bytes]:
            this_read, self.reads = self.reads, self.reads + 1
            if this_read == self.read_index:
                self.uri_and_position = files.uri(extent), extent.start + extent.length // 2
            begin = extent.start
            for chunk in chunks(files, extent, *more):
                is_hit = self.uri_and_position is not None and files.uri(extent) == self.uri_and_position[0]
                yield (
                    flipped(chunk, self.uri_and_position[1] - begin)
                    if is_hit and (this_read == self.read_index or self.is_lasting)
                    else chunk
                )
                begin += len(chunk)

        monkeypatch.setattr(SnapshotFiles, "chunks", misread)


def flipped(chunk: bytes, position: int) -> bytes:
    """Flip a bit of the byte at a position, if it lies in this chunk."""
    return (
        b"".join((chunk[:position], bytes([chunk[position] ^ 4]), chunk[position + 1 :]))
        if 0 <= position < len(chunk)
        else chunk
    )


@pytest.fixture(params=CASES)
def moved_plan(request: pytest.FixtureRequest, tmp_path: Path) -> Plan:
    name, shape = CASES[request.param]
    plan = plan_rescale(snapshots.directory(name), str(tmp_path / "target"), **shape)
    move(plan, InProcessTasks())
    return plan


def read_indices(plan: Plan, most_reads: int) -> list[int]:
    with pytest.MonkeyPatch.context() as patching:
        misreading = Misreading()
        misreading.install(patching)
        validate_coverage(plan, InProcessTasks())
    step = max(1, (misreading.reads - 1) // (most_reads - 1))
    return list(range(0, misreading.reads, step))


def source_broadcast_copies(plan: Plan) -> list[tuple[str, Extent]]:
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


def outcomes(plan: Plan, most_reads: int, *, is_lasting: bool) -> Iterator[tuple[Misreading, RescaleError]]:
    copies = source_broadcast_copies(plan)
    for read_index in read_indices(plan, most_reads):
        misreading = Misreading(read_index, is_lasting)
        with pytest.MonkeyPatch.context() as patching:
            misreading.install(patching)
            try:
                validate_coverage(plan, InProcessTasks())
            except RescaleError as error:
                yield misreading, error
                continue
        assert misreading.uri_and_position is not None
        uri, position = misreading.uri_and_position
        assert any(uri == copy_uri and e.start <= position < e.start + e.length for copy_uri, e in copies), misreading


@most_reads
def test_single_misread_raises_store_error(moved_plan: Plan, most_reads: int) -> None:
    errors = list(outcomes(moved_plan, most_reads, is_lasting=False))
    for misreading, error in errors:
        assert isinstance(error, StoreError), (misreading, error)
        assert misreading.uri_and_position is not None
        side = "result" if misreading.uri_and_position[0].startswith(moved_plan.target) else "source"
        assert error.what == f"two reads of the {side} differ"
    assert len(errors) > most_reads // 2
    assert validate_coverage(moved_plan, InProcessTasks()).verdict == "complete"


@most_reads
def test_lasting_damage_raises_integrity_or_snapshot_error(moved_plan: Plan, most_reads: int) -> None:
    errors = list(outcomes(moved_plan, most_reads, is_lasting=True))
    assert all(isinstance(error, IntegrityError | SnapshotError) for _, error in errors), errors
    assert len(errors) > most_reads // 2


@dataclass
class OpeningMisread:
    """Counts reads of `_metadata`, candidate, headers and MANIFESTs, and flips a bit in the read `read_index`."""

    read_index: int | None = None
    reads: int = 0

    def misread_once(self, data: bytes) -> bytes:
        this_read, self.reads = self.reads, self.reads + 1
        return flipped(data, len(data) // 2) if this_read == self.read_index else data

    def validate(self, plan: Plan, proof: Proof) -> None:
        read, read_all = SnapshotFiles.read, LocalStore.read_all

        def read_extent(files: SnapshotFiles, extent: Extent, *more: int) -> bytes:
            return self.misread_once(read(files, extent, *more))

        def read_whole(store: LocalStore, uri: str, *more: Any) -> tuple[bytes, Pin]:
            data, pin = read_all(store, uri, *more)
            return self.misread_once(data) if uri.endswith(("/_metadata", "/candidate")) else data, pin

        with patch.object(SnapshotFiles, "read", read_extent), patch.object(LocalStore, "read_all", read_whole):
            validate_coverage(plan, InProcessTasks(), proof)


@most_reads
@pytest.mark.parametrize(("name", "proof"), [(CANONICAL, Proof.RECORDS), ("2-rocksdb-2to3", Proof.FILES)])
def test_single_misread_of_metadata_header_or_manifest_raises_store_error(
    name: str, proof: Proof, most_reads: int, tmp_path: Path
) -> None:
    plan = plan_rescale(snapshots.directory(name), str(tmp_path / "target"), ["2" if proof is Proof.FILES else "3"])
    move(plan, InProcessTasks())
    counting = OpeningMisread()
    counting.validate(plan, proof)
    errors = []
    for read_index in range(0, counting.reads, -(-counting.reads // (2 * most_reads))):
        try:
            OpeningMisread(read_index).validate(plan, proof)
        except RescaleError as error:
            errors.append(error)
    assert all(isinstance(error, StoreError) and "two reads of the" in error.what for error in errors)
    assert len(errors) > most_reads // 2
