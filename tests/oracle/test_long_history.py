"""A short history of those that `python -m oracle.long_history` plays."""

from __future__ import annotations

from pathlib import Path

import pytest

from oracle.harness import Flink
from oracle.long_history import play, rounds


@pytest.mark.slow
def test_short_history_has_no_difference(flink_1_20: Flink, flink_2: Flink, tmp_path: Path) -> None:
    assert play(5, 3, {"1.20": flink_1_20, "2": flink_2}.__getitem__, tmp_path, print)


def test_drawn_rounds_cover_formats_kinds_and_backends_and_only_move_to_newer_lines() -> None:
    drawn = list(rounds(1, 30))
    assert {turn.format for turn in drawn} == {"canonical", "rocksdb", "keep"}
    assert {turn.kind for turn in drawn} == {"canonical", "native", "checkpoint"}
    assert {turn.job.backend for turn in drawn} == {"hashmap", "rocksdb"}
    lines = [turn.line for turn in drawn]
    assert lines == sorted(lines)
    assert drawn == list(rounds(1, 30))
