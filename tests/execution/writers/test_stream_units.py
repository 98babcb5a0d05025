"""Files of very many parts are written in units of several parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from big_savepoint import write_savepoint
from rescale.execution.writers.stream_units import StreamUnit, UnitResult, UnitWriter
from support.pipeline import execute_without_spark, plan_rescale

PART = 10_000


def noted_units(monkeypatch: pytest.MonkeyPatch) -> list[StreamUnit]:
    """Return a list that gets the units that are worked on from now on."""
    worked: list[StreamUnit] = []
    write = UnitWriter.__call__

    def noted(self: UnitWriter, unit: StreamUnit) -> UnitResult:
        worked.append(unit)
        return write(self, unit)

    monkeypatch.setattr(UnitWriter, "__call__", noted)
    return worked


@pytest.mark.parametrize("units", [3, 20, 1000])
def test_files_are_the_same_with_any_number_of_units(
    units: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    write_savepoint(source, 1_600_000, parallelism=2)
    monkeypatch.setattr("rescale.planning.planner.PART_SIZE", PART)
    monkeypatch.setattr("rescale.execution.writers.planned_streams.MOST_UNITS", units)
    worked = noted_units(monkeypatch)
    execute_without_spark(plan_rescale(str(source), str(target), ["3"]))
    parts = sum(unit.part_count for unit in worked)
    assert parts > 39
    assert len(worked) <= units + 3
    assert (len(worked) == parts) is (units == 1000)
    assert (target / "_metadata").exists()


def test_units_of_a_few_files_at_once_are_written_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    write_savepoint(source, 800_000, parallelism=2)
    monkeypatch.setattr("rescale.planning.planner.PART_SIZE", PART)
    monkeypatch.setattr("rescale.execution.writers.planned_streams._FILES_AT_ONCE", 2)
    worked = noted_units(monkeypatch)
    execute_without_spark(plan_rescale(str(source), str(target), ["3"]))
    in_turn = [unit.stream_index for unit in worked]
    both = in_turn.index(2)
    assert in_turn[:16] == [0, 1] * 8
    assert set(in_turn[both:]) == {2}
    assert sorted(worked, key=lambda unit: unit[:3]) != worked
