"""Old rows are left out of a result, all others are there, and both are counted. A wrong choice of rows is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rescale.execution.compare.diff.snapshots import diff_snapshots
from rescale.execution.compare.validation.declared_differences import check_declared
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.ttl.age_filter import AgeFilter
from rescale.flink.keyed.ttl.last_access import format_time
from rescale.flink.operator_id import operator_id_of_uid
from rescale.plan.plan import plan_from_json, plan_to_json
from rescale.planning.request.surgery import resolve_surgery
from rescale.planning.request.surgery_request import parse_surgery
from rescale.report.pages.declared import certified_lines, declared_lines
from rescale.runstate.certificate import CertifiedOldRows, CertifiedRecords, read_certificate
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import IntegrityError, UnsupportedError
from support.pipeline import execute_without_spark, plan_rescale
from support.slow import slow
from support.snapshots import directory
from support.timed_rows import MAPS, RECENT, TEXTS, VALUES, elements_of, rows_of, times_in, without_old

OF_ALL = ("states", (VALUES, TEXTS, MAPS))
OF_VISITS = ("visits", (RECENT,))

CASES = [
    pytest.param("2-canonical-rocksdb", OF_ALL, {}, id="canonical"),
    pytest.param("1.20-canonical-compressed", OF_ALL, {"max_parallelism": ["48"]}, id="compressed, rehashed"),
    pytest.param("2-canonical-hashmap", OF_ALL, {"format": "rocksdb"}, id="into RocksDB"),
    pytest.param("2-heap-native", OF_ALL, {"format": "canonical", "parallelism": ["3"]}, id="from the heap"),
    pytest.param("2-rocksdb-3to2", OF_VISITS, {}, id="RocksDB"),
    slow("1.20-rocksdb-3to2", OF_VISITS, {"parallelism": ["3"]}, id="RocksDB, another parallelism"),
    slow("2-rocksdb-3to2", OF_VISITS, {"format": "canonical"}, id="out of RocksDB"),
    slow("2-rocksdb-3to2", OF_VISITS, {"max_parallelism": ["200"], "files": "refer"}, id="RocksDB, rehashed"),
    slow("2-rocksdb-heap-timers", OF_VISITS, {}, id="RocksDB beside timers on the heap"),
    slow("2-changelog-over-rocksdb", OF_VISITS, {}, id="changelog"),
]


def certified(target: str, uid: str) -> CertifiedRecords:
    """Return what a certificate says of the records of an operator."""
    of_operators = {operator.operator_id: operator.records for operator in read_certificate(target).operators}
    records = of_operators[operator_id_of_uid(uid)]
    assert records is not None
    return records


@pytest.mark.parametrize(("name", "old_states", "shape"), CASES)
def test_old_rows_are_missing_and_all_others_are_there(
    name: str, old_states: tuple[str, tuple[str, ...]], shape: dict[str, Any], tmp_path: Path
) -> None:
    (uid, states), source, target = old_states, directory(name), str(tmp_path / "target")
    before = rows_of(source, uid)
    until = times_in(before)[len(times_in(before)) // 2 - 1]
    ages = [f"{uid}:{state}={format_time(until)}" for state in states]
    plan = plan_rescale(source, target, ages=ages, **shape)
    assert plan_from_json(plan_to_json(plan), "") == plan
    execute_without_spark(plan)
    expected = without_old(before, dict.fromkeys(states, until))
    assert rows_of(target, uid) == expected
    records = certified(target, uid)
    assert records.old_rows == {
        state: CertifiedOldRows(
            len(before[state]) - len(expected.get(state, {})),
            elements_in(before, state) - elements_in(expected, state),
        )
        for state in states
    }
    assert any(old.rows or old.elements for old in records.old_rows.values())
    left_out = sum(old.rows for old in records.old_rows.values())
    assert sum(map(len, before.values())) == records.compared + left_out
    result = open_snapshot(target)
    assert diff_snapshots(open_snapshot(source), result, InProcessTasks(), plan.surgery).equal
    assert not diff_snapshots(open_snapshot(source), result, InProcessTasks()).equal
    second_certificate = validate_published(source, target, InProcessTasks(), declared_surgery=parse_surgery(ages=ages))
    assert (
        second_certificate.operators
        == validate_published(source, target, InProcessTasks()).operators
        == read_certificate(target).operators
    )


def elements_in(rows: dict[str, dict[bytes, bytes]], state: str) -> int:
    """Return the number of elements of a state of lists; 0 for any other state."""
    lists = rows.get(state, {}).values() if state in (TEXTS, RECENT) else ()
    return sum(len(elements_of(value)) for value in lists)


def test_all_rows_may_be_old_and_none(tmp_path: Path) -> None:
    source = directory("2-canonical-rocksdb")
    before = rows_of(source, "states")
    first, last = times_in(before)[0], times_in(before)[-1]
    for until, expected in ((first - 1, before), (last, without_old(before, dict.fromkeys(OF_ALL[1], last)))):
        target = str(tmp_path / str(until))
        execute_without_spark(
            plan_rescale(source, target, ages=[f"states:{state}={format_time(until)}" for state in OF_ALL[1]])
        )
        assert rows_of(target, "states") == expected


def test_old_rows_are_declared_and_counted(tmp_path: Path) -> None:
    source, target = directory("2-canonical-rocksdb"), str(tmp_path / "target")
    until = times_in(rows_of(source, "states"))[-1]
    ages = [f"states:{TEXTS}={format_time(until)}"]
    plan = plan_rescale(source, target, ["3"], ages=ages, renames=["states=users"])
    (_, line) = declared_lines(plan.surgery)
    assert f"the state {TEXTS} (LIST) of states (" in line
    assert f"last accessed at or before {format_time(until)}: the run counts them, in " in line
    assert any("Their number is not known before the run" in warning for warning in plan.warnings)
    execute_without_spark(plan)
    certificate = read_certificate(target)
    old = certified(target, "users").old_rows[TEXTS]
    assert certified_lines(certificate)[1].endswith(f": {old.rows} rows, {old.elements} list elements in all")
    assert "the result holds exactly the rows and list elements whose last access is later" in certificate.proves
    other = parse_surgery(ages=[f"states:{TEXTS}={format_time(until - 1)}"], renames=["states=users"])
    with pytest.raises(IntegrityError, match="records were lost, doubled or changed"):
        validate_published(source, target, InProcessTasks(), declared_surgery=other)


def test_source_without_the_declared_ttl_is_found() -> None:
    source = open_snapshot(directory("2-canonical-rocksdb"))
    surgery = resolve_surgery(source, parse_surgery(ages=[f"states:{VALUES}=1d"]))
    (rows,) = surgery.old_rows
    check_declared(source, source, surgery)
    for other in (replace(rows, name="last"), replace(rows, type="MAP"), replace(rows, operator_id="ab" * 16)):
        with pytest.raises(IntegrityError):
            check_declared(source, source, replace(surgery, old_rows=(other,)))


def test_result_in_the_native_format_of_the_heap_is_refused(tmp_path: Path) -> None:
    ages = [f"states:{VALUES}=30d"]
    with pytest.raises(UnsupportedError, match="in the native format of the hashmap backend") as caught:
        plan_rescale(directory("2-heap-native"), str(tmp_path / "target"), ["3"], ages=ages)
    assert "--format canonical" in str(caught.value.advice)


def keeps_an_old_row(self: AgeFilter, records: Records) -> Records:  # noqa: ARG001
    return records


def drops_a_young_row(self: AgeFilter, records: Records) -> Records:
    young = ORIGINAL(self, records)
    of_state = young.state_ids == next(iter(self._state_names))
    of_state[of_state.argmax() + 1 :] = False
    return young.select(~of_state)


def drops_a_young_element(self: AgeFilter, records: Records) -> Records:
    self._list_rules = [rule._replace(cutoff=rule.cutoff + 1) for rule in self._list_rules]
    return ORIGINAL(self, records)


ORIGINAL = AgeFilter.filter


@pytest.mark.parametrize("bug", [keeps_an_old_row, drops_a_young_row, drops_a_young_element])
def test_wrong_choice_of_rows_is_found(bug: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = directory("2-canonical-rocksdb"), str(tmp_path / "target")
    rows = rows_of(source, "states")
    until = times_in({TEXTS: rows[TEXTS]})[-1] - 1  # so that the youngest element is one millisecond too young
    ages = [f"states:{state}={format_time(until)}" for state in OF_ALL[1]]
    monkeypatch.setattr(AgeFilter, "filter", bug)
    with pytest.raises(IntegrityError, match="records were lost, doubled or changed") as caught:
        execute_without_spark(plan_rescale(source, target, ages=ages))
    assert "nothing was published" in caught.value.what
    assert not (tmp_path / "target" / "_metadata").exists()
