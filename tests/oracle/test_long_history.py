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
    drawn_rounds = list(rounds(1, 30))
    assert {history_round.format for history_round in drawn_rounds} == {"canonical", "rocksdb", "keep"}
    assert {history_round.kind for history_round in drawn_rounds} == {"canonical", "native", "checkpoint"}
    assert {history_round.job.backend for history_round in drawn_rounds} == {"hashmap", "rocksdb"}
    lines = [history_round.line for history_round in drawn_rounds]
    assert lines == sorted(lines)
    assert drawn_rounds == list(rounds(1, 30))
