"""Choice of directories whose MANIFESTs are read, and of operators that may be proven by files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rescale.execution.compare.validation import directories
from rescale.execution.compare.validation.directories import is_comparable_by_files, match_directories
from rescale.flink.key_groups import key_group_range
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keyed.timers.heap_timers import TimerService
from rescale.rocksdb.database_layout import MANIFEST_NAME
from rescale.rocksdb.stored_files import CURRENT
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.keyed_state import Database
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Operator, Snapshot
from support.small_directories import HALVES, MAXIMUM, WrittenSnapshot, thirds
from support.snapshot_bytes import LONG, VOID_NAMESPACE, parsed
from support.synthetic import operator, own_stream


def canonical_operator(max_parallelism: int) -> Operator:
    return operator(
        "op", 2, max_parallelism, keyed=tuple(own_stream(i, 2, max_parallelism, Framing.CANONICAL) for i in range(2))
    )


@pytest.fixture
def snapshots_read(monkeypatch: pytest.MonkeyPatch) -> list[Snapshot]:
    """Record the snapshots whose MANIFESTs are read."""
    snapshots: list[Snapshot] = []

    def recording_with_tables(snapshot: Snapshot, *more: Any) -> Snapshot:
        snapshots.append(snapshot)
        return with_tables(snapshot, *more)

    monkeypatch.setattr(directories, "with_tables", recording_with_tables)
    return snapshots


def test_unchanged_directories_are_compared_without_reading_manifests(
    source: WrittenSnapshot, result: WrittenSnapshot, snapshots_read: list[Snapshot]
) -> None:
    """This holds even if another operator is compared by records."""
    other_operators = canonical_operator(MAXIMUM), canonical_operator(2 * MAXIMUM)
    old, new = (
        side.snapshot(*(side.database(i, *part) for i, part in enumerate(HALVES)), others=[other])
        for side, other in zip((source, result), other_operators, strict=True)
    )
    other, directories = match_directories(old, new)
    assert other == {}
    assert [
        (pair.subtask, pair.same_file_count, len(pair.copies), pair.deleted_range_count)
        for pair in directories.values()
    ] == [
        (0, 0, 3, 0),
        (1, 0, 2, 0),
    ]
    for directory_pair in directories.values():
        small_names = [pair.name for pair in directory_pair.small_files]
        assert small_names == [
            f"the states of subtask {directory_pair.subtask}",
            CURRENT,
            MANIFEST_NAME,
            "OPTIONS-000006",
        ]
    assert snapshots_read == []


def test_manifests_that_were_read_before_are_not_read_again(
    source: WrittenSnapshot, result: WrittenSnapshot, snapshots_read: list[Snapshot]
) -> None:
    old = source.of(*HALVES)
    new = result.of(*thirds(old))
    expected = match_directories(old, new)
    assert snapshots_read == [old, new]
    opened = with_tables(old)
    assert match_directories(opened, new) == expected
    assert snapshots_read == [old, new, new]
    databases = opened.operators[0].databases
    half_opened = replace(
        opened, operators=(replace(opened.operators[0], databases=(databases[0], old.operators[0].databases[1])),)
    )
    assert match_directories(half_opened, new) == expected
    assert snapshots_read == [old, new, new, half_opened, new]


def test_manifest_that_was_not_read_raises_value_error(
    source: WrittenSnapshot, result: WrittenSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = source.of(*HALVES)
    new = result.of(*thirds(old))
    monkeypatch.setattr(directories, "with_tables", lambda snapshot, *_: snapshot)
    with pytest.raises(ValueError, match="the MANIFEST of subtask 0 was not read"):
        match_directories(old, new)


def test_directories_are_compared_by_files_only_if_just_the_parallelism_changes() -> None:
    databases = (Database(i, key_group_range(MAXIMUM, 2, i), Extent(1, 0, 0), b"", None, ()) for i in range(2))
    old = operator("op", 2, MAXIMUM, databases=tuple(databases))
    service = TimerService("timers", parsed(LONG), parsed(VOID_NAMESPACE))
    raw = replace(own_stream(0, 1, MAXIMUM, Framing.RAW), timer_services=(service,))
    with_timers = replace(old, raw_keyed=(raw,))
    assert is_comparable_by_files(old, old)
    assert is_comparable_by_files(old, replace(old, databases=old.databases[:1]))
    assert is_comparable_by_files(with_timers, with_timers)
    assert is_comparable_by_files(old, with_timers)
    assert not is_comparable_by_files(old, operator("op", 2, 2 * MAXIMUM, databases=old.databases))
    assert not is_comparable_by_files(old, canonical_operator(MAXIMUM))
    assert not is_comparable_by_files(canonical_operator(MAXIMUM), canonical_operator(MAXIMUM))
    assert not is_comparable_by_files(replace(old, dropped_states=frozenset({"one"})), old)
    assert not is_comparable_by_files(with_timers, old)


def test_operators_with_another_kind_of_state_or_max_parallelism_are_compared_by_records(
    source: WrittenSnapshot, result: WrittenSnapshot
) -> None:
    """The snapshot also has an operator whose directories consist of whole files."""
    old = source.of(*HALVES)
    result_databases = thirds(old)
    directories = tuple(result.database(i, *part) for i, part in enumerate(result_databases))
    before, after = canonical_operator(MAXIMUM), operator("becomes", 3, MAXIMUM, databases=directories)
    assert not is_comparable_by_files(before, after)
    other = operator("moves", 2, 2 * MAXIMUM, databases=old.operators[0].databases)
    assert not is_comparable_by_files(other, after)
    old = replace(old, operators=(before, other, *old.operators))
    new = result.snapshot(*directories, others=[after, after])
    assert [list(directories) for directories in match_directories(old, new)] == [[], [], [0, 1, 2]]
