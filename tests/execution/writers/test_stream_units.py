"""Files of very many parts are written in units of several parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from big_savepoint import write_savepoint
from rescale.execution.writers.stream_units import StreamUnit, UnitResult, UnitWriter
from support.pipeline import execute_without_spark, plan_rescale

PART_SIZE = 10_000


def record_units(monkeypatch: pytest.MonkeyPatch) -> list[StreamUnit]:
    """Return a list that gets the units that are worked on from now on."""
    recorded_units: list[StreamUnit] = []
    write = UnitWriter.__call__

    def record_unit(self: UnitWriter, unit: StreamUnit) -> UnitResult:
        recorded_units.append(unit)
        return write(self, unit)

    monkeypatch.setattr(UnitWriter, "__call__", record_unit)
    return recorded_units


@pytest.mark.parametrize("most_units", [3, 20, 1000])
def test_files_are_the_same_with_any_number_of_units(
    most_units: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    write_savepoint(source, 1_600_000, parallelism=2)
    monkeypatch.setattr("rescale.planning.planner.PART_SIZE", PART_SIZE)
    monkeypatch.setattr("rescale.execution.writers.planned_streams.MOST_UNITS", most_units)
    recorded_units = record_units(monkeypatch)
    execute_without_spark(plan_rescale(str(source), str(target), ["3"]))
    part_count = sum(unit.part_count for unit in recorded_units)
    assert part_count > 39
    assert len(recorded_units) <= most_units + 3
    assert (len(recorded_units) == part_count) is (most_units == 1000)
    assert (target / "_metadata").exists()


def test_units_of_a_few_files_at_once_are_written_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    write_savepoint(source, 800_000, parallelism=2)
    monkeypatch.setattr("rescale.planning.planner.PART_SIZE", PART_SIZE)
    monkeypatch.setattr("rescale.execution.writers.planned_streams._FILES_AT_ONCE", 2)
    recorded_units = record_units(monkeypatch)
    execute_without_spark(plan_rescale(str(source), str(target), ["3"]))
    stream_indices = [unit.stream_index for unit in recorded_units]
    start_of_third_file = stream_indices.index(2)
    assert stream_indices[:16] == [0, 1] * 8
    assert set(stream_indices[start_of_third_file:]) == {2}
    assert sorted(recorded_units, key=lambda unit: unit[:3]) != recorded_units
