"""Which directories are looked through, and whether they may go by their files at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rescale.execution.compare.validation import directories
from rescale.execution.compare.validation.directories import may_go_by_files, whole_files
from rescale.flink.key_groups import key_group_range
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keyed.timers.heap_timers import TimerService
from rescale.rocksdb.database_layout import MANIFEST_NAME
from rescale.rocksdb.stored_files import CURRENT
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.keyed_state import Database
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Operator, Snapshot
from support.small_directories import (
    HALVES,
    MAXIMUM,
    Side,
    thirds,
)
from support.snapshot_bytes import LONG, VOID_NAMESPACE, parsed
from support.synthetic import operator, own_stream


def canonical(maximum: int) -> Operator:
    return operator("op", 2, maximum, keyed=tuple(own_stream(i, 2, maximum, Framing.CANONICAL) for i in range(2)))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Snapshot]:
    """Which snapshots are looked through."""
    looked: list[Snapshot] = []

    def looking(of: Snapshot, *more: Any) -> Snapshot:
        looked.append(of)
        return with_tables(of, *more)

    monkeypatch.setattr(directories, "with_tables", looking)
    return looked


def test_what_stays_as_it_is_is_not_looked_through(source: Side, result: Side, looks: list[Snapshot]) -> None:
    """Nor where other operators go by records."""
    changes = canonical(MAXIMUM), canonical(2 * MAXIMUM)
    old, new = (
        side.snapshot(*(side.database(i, *part) for i, part in enumerate(HALVES)), others=[other])
        for side, other in zip((source, result), changes, strict=True)
    )
    other, directories = whole_files(old, new)
    assert other == {}
    assert [(pair.subtask, pair.same, len(pair.copies), pair.deleted_ranges) for pair in directories.values()] == [
        (0, 0, 3, 0),
        (1, 0, 2, 0),
    ]
    for directory_pair in directories.values():
        small = [pair.name for pair in directory_pair.small]
        assert small == [f"the states of subtask {directory_pair.subtask}", CURRENT, MANIFEST_NAME, "OPTIONS-000006"]
    assert looks == []


def test_only_what_was_not_looked_through_before_is(source: Side, result: Side, looks: list[Snapshot]) -> None:
    old = source.of(*HALVES)
    new = result.of(*thirds(old))
    expected = whole_files(old, new)
    assert looks == [old, new]
    seen = with_tables(old)
    assert whole_files(seen, new) == expected
    assert looks == [old, new, new]
    databases = seen.operators[0].databases
    some = replace(
        seen, operators=(replace(seen.operators[0], databases=(databases[0], old.operators[0].databases[1])),)
    )
    assert whole_files(some, new) == expected
    assert looks == [old, new, new, some, new]


def test_what_nobody_has_looked_through_is_a_fault_of_ours(
    source: Side, result: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = source.of(*HALVES)
    new = result.of(*thirds(old))
    monkeypatch.setattr(directories, "with_tables", lambda of, *_: of)
    with pytest.raises(ValueError, match="the MANIFEST of subtask 0 was not read"):
        whole_files(old, new)


def test_directories_stay_directories_where_nothing_else_changes() -> None:
    """In whatever shape."""
    owns = (Database(i, key_group_range(MAXIMUM, 2, i), Extent(1, 0, 0), b"", None, ()) for i in range(2))
    old = operator("op", 2, MAXIMUM, databases=tuple(owns))
    service = TimerService("timers", parsed(LONG), parsed(VOID_NAMESPACE))
    raw = replace(own_stream(0, 1, MAXIMUM, Framing.RAW), services=(service,))
    with_timers = replace(old, raw_keyed=(raw,))
    assert may_go_by_files(old, old)
    assert may_go_by_files(old, replace(old, databases=old.databases[:1]))
    assert may_go_by_files(with_timers, with_timers)
    assert may_go_by_files(old, with_timers)
    assert not may_go_by_files(old, operator("op", 2, 2 * MAXIMUM, databases=old.databases))
    assert not may_go_by_files(old, canonical(MAXIMUM))
    assert not may_go_by_files(canonical(MAXIMUM), canonical(MAXIMUM))
    assert not may_go_by_files(replace(old, dropped_states=frozenset({"one"})), old)
    assert not may_go_by_files(with_timers, old)


def test_operators_that_become_directories_go_by_records(source: Side, result: Side) -> None:
    """Beside one that is made of whole files; so do those with other key groups."""
    old = source.of(*HALVES)
    made = thirds(old)
    directories = tuple(result.database(i, *part) for i, part in enumerate(made))
    before, after = canonical(MAXIMUM), operator("becomes", 3, MAXIMUM, databases=directories)
    assert not may_go_by_files(before, after)
    other = operator("moves", 2, 2 * MAXIMUM, databases=old.operators[0].databases)
    assert not may_go_by_files(other, after)
    old = replace(old, operators=(before, other, *old.operators))
    new = result.snapshot(*directories, others=[after, after])
    assert [list(directories) for directories in whole_files(old, new)] == [[], [], [0, 1, 2]]
