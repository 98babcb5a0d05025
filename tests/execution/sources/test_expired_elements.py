"""A compaction between two checkpoints drops an expired element of a list, and keeps the row's sequence number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from execution.sources.test_change_records import Checkpoints, changes_by_state
from rescale.execution.sources.change_records import ChangeReader
from rescale.rocksdb.engine.changes import entry_batches
from support.assembled import STATES
from support.changing_job import OPTIONS
from support.rocksdb_writer import Writer

KEY, OTHER_KEY = b"\5list", b"\6list"


@pytest.fixture
def reader(tmp_path: Path) -> ChangeReader:
    """Return a reader of the changes between two checkpoints, between which an element has expired."""
    paths: Sequence[Path] = [tmp_path / "earlier", tmp_path / "later"]
    expired: list[bytes] = []
    (tmp_path / "job").mkdir()
    writer = Writer(
        tmp_path / "job", STATES, OPTIONS, change=lambda row: b",".join(e for e in row.split(b",") if e not in expired)
    )
    try:
        for key, elements in ((KEY, [b"old", b"young"]), (OTHER_KEY, [b"young"])):
            for element in elements:
                writer.add(STATES[0], key, element)
        writer.flush()
        writer.compact(STATES[0])
        writer.checkpoint(paths[0])
        expired.append(b"old")
        writer.put(STATES[0], b"\7new", b"young")
        writer.flush()
        writer.compact(STATES[0])
        writer.checkpoint(paths[1])
    finally:
        writer.close()
    checkpoints = Checkpoints(paths)
    return ChangeReader(128, checkpoints.files, checkpoints.place(0, 1))


def test_list_without_its_expired_element_is_a_change(reader: ChangeReader) -> None:
    assert changes_by_state(reader)[STATES[0]] == {KEY: b"young", b"\7new": b"young"}


def test_comparison_by_sequence_numbers_alone_would_miss_the_expired_element(
    reader: ChangeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = entry_batches._decoded

    def without_values(*arguments: Any) -> Any:
        entries = decode(*arguments)
        return replace(entries, value_ends=entries.value_starts)

    monkeypatch.setattr(entry_batches, "_decoded", without_values)
    assert changes_by_state(reader)[STATES[0]] == {b"\7new": b"young"}
