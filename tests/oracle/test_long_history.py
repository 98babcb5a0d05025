"""A short one of the histories that `python -m oracle.long_history` plays at length."""

from __future__ import annotations

from pathlib import Path

import pytest

from oracle.harness import Flink
from oracle.long_history import play, rounds


@pytest.mark.slow
def test_a_short_life(flink_1_20: Flink, flink_2: Flink, tmp_path: Path) -> None:
    assert play(5, 3, {"1.20": flink_1_20, "2": flink_2}.__getitem__, tmp_path, print)


def test_lines_formats_kinds_and_shapes_occur_and_no_line_is_gone_back() -> None:
    drawn = list(rounds(1, 30))
    assert {one.format for one in drawn} == {"canonical", "rocksdb", "keep"}
    assert {one.kind for one in drawn} == {"canonical", "native", "checkpoint"}
    assert {one.job.backend for one in drawn} == {"hashmap", "rocksdb"}
    lines = [one.line for one in drawn]
    assert lines == sorted(lines)
    assert drawn == list(rounds(1, 30))
