"""Snapshots of old releases: 1.14.0 by Flink itself, the others from Flink's own migration tests (Apache-2.0)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rescale.cli.main import main

SNAPSHOTS = Path(__file__).parent / "old_releases"


def inspect_release(capsys: pytest.CaptureFixture[str], name: str, *options: str) -> tuple[int, dict[str, Any]]:
    code = main(["inspect", str(SNAPSHOTS / name), "--output", "json", *options])
    return code, json.loads(capsys.readouterr().out)


def test_two_phase_sink_of_1_14_0_is_read_without_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    """`TwoPhaseCommitSinkFunction.StateSerializerSnapshot` had version 3 up to Flink 1.14.2; version 4 has the flag."""
    code, document = inspect_release(capsys, "1.14.0-two-phase-sink")
    assert code == 0
    assert [state["elements"] for o in document["operators"] for state in o["elements"]] == [2]


def test_state_of_1_6_is_reported_as_unread_with_advice(capsys: pytest.CaptureFixture[str]) -> None:
    code, document = inspect_release(capsys, "1.6-heap")
    (error,) = document["unread"]
    assert (code, error["found"]) == (3, "5")
    assert "1.3 to 1.6" in error["advice"]
    assert "canonical" not in error["advice"]
    assert error["operator"] in {operator["label"] for operator in document["operators"]}


@pytest.mark.parametrize(("line", "restores"), [("1.20", "unknown"), ("2.0", "no"), ("2.3", "no")])
def test_class_removed_in_flink_2_is_known_as_flinks_own(
    capsys: pytest.CaptureFixture[str], line: str, restores: str
) -> None:
    code, document = inspect_release(capsys, "1.10-either", "--for-flink", line)
    assert code == 0
    operators = {o["operator_id"]: o["restores"] for o in document["for_flink"]["operators"]}
    assert restores in operators.values()
    assert "is no class of Flink" not in json.dumps(document)
