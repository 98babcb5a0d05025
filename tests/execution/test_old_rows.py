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

AGED_STATES = ("states", (VALUES, TEXTS, MAPS))
AGED_VISITS = ("visits", (RECENT,))

CASES = [
    pytest.param("2-canonical-rocksdb", AGED_STATES, {}, id="canonical"),
    pytest.param("1.20-canonical-compressed", AGED_STATES, {"max_parallelism": ["48"]}, id="compressed, rehashed"),
    pytest.param("2-canonical-hashmap", AGED_STATES, {"format": "rocksdb"}, id="into RocksDB"),
    pytest.param("2-heap-native", AGED_STATES, {"format": "canonical", "parallelism": ["3"]}, id="from the heap"),
    pytest.param("2-rocksdb-3to2", AGED_VISITS, {}, id="RocksDB"),
    slow("1.20-rocksdb-3to2", AGED_VISITS, {"parallelism": ["3"]}, id="RocksDB, another parallelism"),
    slow("2-rocksdb-3to2", AGED_VISITS, {"format": "canonical"}, id="out of RocksDB"),
    slow("2-rocksdb-3to2", AGED_VISITS, {"max_parallelism": ["200"], "files": "refer"}, id="RocksDB, rehashed"),
    slow("2-rocksdb-heap-timers", AGED_VISITS, {}, id="RocksDB beside timers on the heap"),
    slow("2-changelog-over-rocksdb", AGED_VISITS, {}, id="changelog"),
]


def certified_records(target: str, uid: str) -> CertifiedRecords:
    """Return what a certificate says of the records of an operator."""
    records_by_operator = {operator.operator_id: operator.records for operator in read_certificate(target).operators}
    records = records_by_operator[operator_id_of_uid(uid)]
    assert records is not None
    return records


@pytest.mark.parametrize(("name", "old_states", "shape"), CASES)
def test_old_rows_are_missing_and_all_others_are_there(
    name: str, old_states: tuple[str, tuple[str, ...]], shape: dict[str, Any], tmp_path: Path
) -> None:
    (uid, states), source, target = old_states, directory(name), str(tmp_path / "target")
    source_rows, has_heap_timers = rows_of(source, uid), name.endswith("heap-timers")
    cutoff_ms = times_in(source_rows)[len(times_in(source_rows)) // 2 - 1]
    ages = [f"{uid}:{state}={format_time(cutoff_ms)}" for state in states]
    plan = plan_rescale(source, target, ages=ages, **shape)
    assert plan_from_json(plan_to_json(plan), "") == plan
    execute_without_spark(plan)
    expected = without_old(source_rows, dict.fromkeys(states, cutoff_ms))
    assert rows_of(target, uid) == expected
    records = certified_records(target, uid)
    assert records.old_rows == {
        state: CertifiedOldRows(
            len(source_rows[state]) - len(expected.get(state, {})),
            elements_in(source_rows, state) - elements_in(expected, state),
        )
        for state in states
    }
    assert any(old_counts.rows or old_counts.elements for old_counts in records.old_rows.values())
    left_out = sum(old_counts.rows for old_counts in records.old_rows.values())
    # Timers on the heap stay in their key groups, which are compared as a whole.
    states_in_groups = {state for state in source_rows if has_heap_timers and state.startswith("_timer_state/")}
    assert states_in_groups.isdisjoint(records.states)
    read_rows = [rows for state, rows in source_rows.items() if state not in states_in_groups]
    assert sum(map(len, read_rows)) == records.compared + left_out
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


def test_all_rows_or_none_may_be_old(tmp_path: Path) -> None:
    source = directory("2-canonical-rocksdb")
    source_rows = rows_of(source, "states")
    first, last = times_in(source_rows)[0], times_in(source_rows)[-1]
    for cutoff_ms, expected in (
        (first - 1, source_rows),
        (last, without_old(source_rows, dict.fromkeys(AGED_STATES[1], last))),
    ):
        target = str(tmp_path / str(cutoff_ms))
        execute_without_spark(
            plan_rescale(source, target, ages=[f"states:{state}={format_time(cutoff_ms)}" for state in AGED_STATES[1]])
        )
        assert rows_of(target, "states") == expected


def test_old_rows_are_declared_and_counted(tmp_path: Path) -> None:
    source, target = directory("2-canonical-rocksdb"), str(tmp_path / "target")
    cutoff_ms = times_in(rows_of(source, "states"))[-1]
    ages = [f"states:{TEXTS}={format_time(cutoff_ms)}"]
    plan = plan_rescale(source, target, ["3"], ages=ages, renames=["states=users"])
    (_, line) = declared_lines(plan.surgery)
    assert f"the state {TEXTS} (LIST) of states (" in line
    assert f"last accessed at or before {format_time(cutoff_ms)}: the run counts them, in " in line
    assert any("Their number is not known before the run" in warning for warning in plan.warnings)
    execute_without_spark(plan)
    certificate = read_certificate(target)
    old_counts = certified_records(target, "users").old_rows[TEXTS]
    assert certified_lines(certificate)[1].endswith(
        f": {old_counts.rows} rows, {old_counts.elements} list elements in all"
    )
    assert "the result holds exactly the rows and list elements whose last access is later" in certificate.proves
    earlier_surgery = parse_surgery(ages=[f"states:{TEXTS}={format_time(cutoff_ms - 1)}"], renames=["states=users"])
    with pytest.raises(IntegrityError, match="records were lost, doubled or changed"):
        validate_published(source, target, InProcessTasks(), declared_surgery=earlier_surgery)


def test_source_without_the_declared_ttl_is_found() -> None:
    source = open_snapshot(directory("2-canonical-rocksdb"))
    surgery = resolve_surgery(source, parse_surgery(ages=[f"states:{VALUES}=1d"]))
    (declared_rows,) = surgery.old_rows
    check_declared(source, source, surgery)
    for other_rows in (
        replace(declared_rows, name="last"),
        replace(declared_rows, type="MAP"),
        replace(declared_rows, operator_id="ab" * 16),
    ):
        with pytest.raises(IntegrityError):
            check_declared(source, source, replace(surgery, old_rows=(other_rows,)))


def test_result_in_the_native_format_of_the_heap_is_refused(tmp_path: Path) -> None:
    ages = [f"states:{VALUES}=30d"]
    with pytest.raises(UnsupportedError, match="in the native format of the hashmap backend") as caught:
        plan_rescale(directory("2-heap-native"), str(tmp_path / "target"), ["3"], ages=ages)
    assert "--format canonical" in str(caught.value.advice)


def keep_an_old_row(self: AgeFilter, records: Records) -> Records:  # noqa: ARG001
    return records


def drop_a_young_row(self: AgeFilter, records: Records) -> Records:
    young_records = ORIGINAL_FILTER(self, records)
    is_dropped = young_records.state_ids == next(iter(self._state_names))
    is_dropped[is_dropped.argmax() + 1 :] = False
    return young_records.select(~is_dropped)


def drop_a_young_element(self: AgeFilter, records: Records) -> Records:
    self._list_rules = [rule._replace(cutoff=rule.cutoff + 1) for rule in self._list_rules]
    return ORIGINAL_FILTER(self, records)


ORIGINAL_FILTER = AgeFilter.filter


@pytest.mark.parametrize("wrong_filter", [keep_an_old_row, drop_a_young_row, drop_a_young_element])
def test_wrong_choice_of_rows_is_found(wrong_filter: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = directory("2-canonical-rocksdb"), str(tmp_path / "target")
    rows = rows_of(source, "states")
    cutoff_ms = times_in({TEXTS: rows[TEXTS]})[-1] - 1  # so that the youngest element is one millisecond too young
    ages = [f"states:{state}={format_time(cutoff_ms)}" for state in AGED_STATES[1]]
    monkeypatch.setattr(AgeFilter, "filter", wrong_filter)
    with pytest.raises(IntegrityError, match="records were lost, doubled or changed") as caught:
        execute_without_spark(plan_rescale(source, target, ages=ages))
    assert "nothing was published" in caught.value.what
    assert not (tmp_path / "target" / "_metadata").exists()
