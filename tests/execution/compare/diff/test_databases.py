"""Row-by-row comparison of RocksDB directories with canonical savepoints and with each other."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from rescale.snapshot.keyed_state import OtherKeyed
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import SnapshotError, UnsupportedError
from support import snapshots
from support.canonical import Record
from support.databases import with_canonical
from support.diffing import diff, edit_records, unequal_states
from support.finished import rescaled
from support.slow import slow, slow_but

NAMES = [
    name
    for name in with_canonical()
    if json.loads((snapshots.FIXTURES / name / "expected.json").read_text())["directory_prefix"] is None
]
CHURN = "2-rocksdb-2to3"
QUICK = (CHURN, "1.20-rocksdb-heap-timers", "2-rocksdb-imported")


def canonical_twin(name: str) -> Snapshot:
    return open_snapshot(str(snapshots.FIXTURES / name / "canonical"))


@pytest.mark.parametrize("name", slow_but(lambda name: name in QUICK, NAMES))
def test_directory_is_equal_to_canonical_savepoint_of_same_moment(name: str) -> None:
    difference = diff(snapshots.opened(name), canonical_twin(name))
    assert difference.equal, unequal_states(difference)
    counted_kinds = [state.counted for operator in difference.operators for state in operator.states if state.a.count]
    assert counted_kinds.count("records") > 1


@pytest.mark.parametrize("line", [slow("1.20"), "2"])
def test_directory_is_equal_to_its_copy_and_differs_from_one_of_another_moment(line: str, tmp_path: Path) -> None:
    source = snapshots.opened(f"{line}-rocksdb-3to2")
    assert diff(rescaled(f"{line}-rocksdb-3to2", tmp_path).opened(), source).equal
    difference = diff(source, snapshots.opened(f"{line}-rocksdb-2to3"))
    assert not difference.equal
    assert {state.counted for state in unequal_states(difference)} == {"records"}


@pytest.mark.parametrize("few_records", [1000, 3], ids=["all listed", "narrowed down"])
def test_changed_list_and_lost_row_are_named(few_records: int, tmp_path: Path) -> None:
    """The source has the elements of the list in several files, as they were added."""
    result = rescaled(CHURN, tmp_path, "2", format="canonical")

    def with_longer_value(records: list[Record]) -> list[Record]:
        return [records[0]._replace(value=records[0].value + b",more"), *records[1:]]

    (list_record, *_) = edit_records(result, "history", with_longer_value)
    (lost_record, *_) = edit_records(result, "sum", lambda records: records[1:])
    with patch("rescale.execution.compare.diff.record_search._FEW_RECORDS", few_records):
        list_difference, sum_difference = sorted(
            unequal_states(diff(snapshots.opened(CHURN), result.opened())), key=lambda state: state.state
        )
    assert (
        list_difference.state,
        list_difference.differing_at_least,
        [d.found for d in list_difference.differences],
    ) == (
        "history",
        1,
        ["other value"],
    )
    assert list_difference.differences[
        0
    ].a == f"{len(list_record.value)} bytes 0x{list_record.value[:32].hex()}" + "…" * (len(list_record.value) > 32)
    assert (sum_difference.state, sum_difference.a.count - sum_difference.b.count) == ("sum", 1)
    assert [(d.found, d.a, d.b) for d in sum_difference.differences] == [
        ("only in A", f"8 bytes 0x{lost_record.value.hex()}", None)
    ]


def test_damaged_database_raises_snapshot_error_instead_of_difference(tmp_path: Path) -> None:
    result = rescaled(CHURN, tmp_path)
    table = max(result.target.glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    data[5] ^= 1
    table.write_bytes(data)
    with pytest.raises(SnapshotError, match="the database is damaged") as caught:
        diff(result.opened(), canonical_twin(CHURN))
    assert caught.value.path == str(table)
    assert caught.value.operator


def as_unknown_handles(operator: Operator) -> dict[str, Any]:
    """Describe the operator's handles as handles of an unknown kind."""
    states = [
        (subtask.index, subtask.state.managed_keyed) for subtask in operator.entry.subtasks if subtask.state is not None
    ]
    handles = tuple(OtherKeyed(i, handle, 0) for i, handle in states if handle is not None)
    return {"databases": (), "other_keyed": handles}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (as_unknown_handles, "of this kind cannot be compared"),
        (lambda operator: {"databases": tuple(replace(d, parsed=None) for d in operator.databases)}, "hides the names"),
    ],
)
def test_incomparable_databases_are_refused_with_advice(
    change: Callable[[Operator], dict[str, Any]], message: str
) -> None:
    snapshot = snapshots.opened("2-rocksdb-native")
    changed_snapshot = replace(
        snapshot, operators=tuple(replace(operator, **change(operator)) for operator in snapshot.operators)
    )
    with pytest.raises(UnsupportedError, match=message) as caught:
        diff(changed_snapshot, snapshot)
    assert caught.value.operator
    assert caught.value.advice
