"""Runs of extents that lie end to end, so that a task reads each run at once."""

from __future__ import annotations

from unittest.mock import patch

from rescale.execution.sources.spans import extent_runs, group_runs, is_adjacent, span
from rescale.snapshot.locate import Extent


def test_runs_end_where_extents_do_not_touch_or_files_change() -> None:
    extents = [Extent(1, 0, 5), Extent(1, 5, 0), Extent(1, 5, 7), Extent(1, 13, 1), Extent(2, 14, 1), Extent(2, 15, 2)]
    runs = list(extent_runs(extents))
    assert [len(run) for run in runs] == [3, 1, 2]
    assert [span(run) for run in runs] == [Extent(1, 0, 12), Extent(1, 13, 1), Extent(2, 14, 3)]
    assert list(extent_runs([])) == []
    assert not is_adjacent(Extent(1, 0, 5), Extent(1, 4, 5))


def test_numbered_key_groups_keep_their_numbers() -> None:
    groups = [(3, Extent(1, 0, 5)), (9, Extent(1, 5, 5)), (10, Extent(1, 11, 5))]
    assert list(group_runs(groups)) == [groups[:2], groups[2:]]


def test_runs_are_bounded_by_bytes_and_by_number() -> None:
    extents = [Extent(1, 10 * i, 10) for i in range(10)] + [Extent(1, 100, 50), Extent(1, 150, 10)]
    with patch("rescale.execution.sources.spans._MOST_RUN_BYTES", 40):
        runs = list(extent_runs(extents))
    assert [len(run) for run in runs] == [4, 4, 2, 1, 1], "an extent that is too large is a run of its own"
    with patch("rescale.execution.sources.spans._MOST_RUN_ITEMS", 3):
        assert [len(run) for run in extent_runs(extents)] == [3, 3, 3, 3]
