"""Damaged state under another max parallelism ends in a Rescale error or is moved with its damage."""

from __future__ import annotations

import shutil
import tracemalloc
from pathlib import Path

import pytest

from rescale.flink.keyed.key_group_table import Framing
from rescale.plan.plan import Plan
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import RescaleError
from support import snapshots
from support.pipeline import execute_without_spark, plan_rescale
from support.slow import slow, slow_but

SNAPSHOTS = ["2-lazy", "2-lazy-compressed", "1.20-windows", "2-clicks"]
QUICK = ("2-lazy-compressed", "2-clicks")
MEMORY_LIMIT_BYTES = 256 * 1024 * 1024
place_count = pytest.mark.parametrize("place_count", [4, slow(12)])
"""Number of places that are damaged in each file."""


@pytest.fixture(params=slow_but(lambda name: name in QUICK, SNAPSHOTS))
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return shutil.copytree(snapshots.directory(request.param), tmp_path / "source")


def keyed_files(source: Path) -> list[Path]:
    """Return the largest file with canonical keyed state of each operator."""
    snapshot = open_snapshot(str(source))
    largest = [
        max((s.extent.length, snapshot.files[s.extent.file][0]) for s in operator.keyed)
        for operator in snapshot.operators
        if operator.keyed and operator.keyed[0].framing is Framing.CANONICAL and operator.max_parallelism > 1
    ]
    return [Path(uri) for _, uri in largest if uri != snapshot.files[0][0]]


def outcome(source: Path, max_parallelism: str) -> Plan | RescaleError:
    """Return the plan that was executed, or the error that stopped it. Nothing is published after an error."""
    target = source.parent / "target"
    for directory in (target, Path(f"{target}.rescale")):
        shutil.rmtree(directory, ignore_errors=True)
    try:
        plan = plan_rescale(str(source), str(target), ["3"], max_parallelism=[max_parallelism])
        execute_without_spark(plan)
    except RescaleError as error:
        assert not (target / "_metadata").exists()
        return error
    return plan


@place_count
@pytest.mark.parametrize("max_parallelism", ["1000", slow("8")])
def test_flipped_bit_raises_an_error_or_is_moved_as_it_is(source: Path, max_parallelism: str, place_count: int) -> None:
    """A result is published only if it passes validation against the damaged source."""
    errors = []
    for file in keyed_files(source):
        data = file.read_bytes()
        for position in range(5, len(data), max(1, len(data) // place_count)):
            file.write_bytes(data[:position] + bytes([data[position] ^ 1 << position % 8]) + data[position + 1 :])
            result = outcome(source, max_parallelism)
            if isinstance(result, RescaleError):
                assert result.exit_code in (3, 4), result
                errors.append(result)
        file.write_bytes(data)
    assert errors
    assert any(error.operator for error in errors)


@place_count
@pytest.mark.parametrize("length", [0x7FFFFFFF, slow(0x10000000)])
def test_wrong_length_at_any_place_takes_little_memory(source: Path, length: int, place_count: int) -> None:
    length_bytes = length.to_bytes(4, "big", signed=True)
    tracemalloc.start()
    try:
        for file in keyed_files(source)[:2]:
            data = file.read_bytes()
            for position in range(7, len(data) - 4, max(1, len(data) // place_count)):
                file.write_bytes(data[:position] + length_bytes + data[position + 4 :])
                result = outcome(source, "1000")
                assert isinstance(result, Plan) or result.exit_code in (3, 4), result
            file.write_bytes(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEMORY_LIMIT_BYTES


def test_impossible_record_length_is_refused_with_its_place(tmp_path: Path) -> None:
    source = shutil.copytree(snapshots.directory("2-clicks"), tmp_path / "source")
    snapshot = open_snapshot(str(source))
    stream = max((s for o in snapshot.operators for s in o.keyed), key=lambda s: s.extent.length)
    file = Path(snapshot.files[stream.extent.file][0])
    data = file.read_bytes()
    group = next(extent for extent in stream.groups if extent is not None)
    for length in (0x7FFFFFFF, 0x40000000, 0x1000000, -1, 0):
        position = group.start + 2
        file.write_bytes(data[:position] + length.to_bytes(4, "big", signed=True) + data[position + 4 :])
        error = outcome(source, "1000")
        assert isinstance(error, RescaleError)
        assert (error.exit_code, error.path, error.offset) == (3, str(file), group.start)


def test_cut_file_is_refused(source: Path) -> None:
    """The plan refuses a truncated file."""
    for file in keyed_files(source):
        data = file.read_bytes()
        for size in (0, 1, len(data) // 2, len(data) - 1):
            file.write_bytes(data[:size])
            error = outcome(source, "1000")
            assert isinstance(error, RescaleError)
            assert (error.exit_code, error.path) == (3, str(file))
        file.write_bytes(data)
