"""`rescale diff`: its exit codes, its table, its document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from rescale.cli.main import main
from rescale.planning.request.surgery import resolve_surgery
from rescale.planning.request.surgery_request import parse_surgery
from rescale.process import ResultDocument
from rescale.runstate.claim import claim
from rescale.runstate.step import Step
from rescale.snapshot.reading.opening import open_snapshot
from support.commands import in_a_process
from support.diffing import diff
from support.pipeline import execute_without_spark, plan_rescale
from support.readme import fields
from support.snapshots import directory

HASHMAP, ROCKSDB, CLICKS = (directory(f"1.20-{kind}") for kind in ("canonical-hashmap", "canonical-rocksdb", "clicks"))

_SURGERY_OPTIONS = ("rename", "drop", "drop-state")

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def in_this_process() -> Any:

    def run_step(step: Step, _: str, arguments: Sequence[str], *__: object) -> ResultDocument:
        assert step is Step.DIFF
        a, b = (open_snapshot(arguments[arguments.index(word) + 1]) for word in ("--a", "--b"))
        values_by_option = {
            name: [word.partition("=")[2] for word in arguments if word.startswith(f"--{name}=")]
            for name in _SURGERY_OPTIONS
        }
        declared_surgery = parse_surgery(
            renames=values_by_option["rename"],
            drops=values_by_option["drop"],
            state_drops=values_by_option["drop-state"],
        )
        surgery = resolve_surgery(a, declared_surgery)
        return ResultDocument("", msgspec.json.encode(diff(a, b, surgery)))

    with patch("rescale.cli.command_steps.run_step", run_step):
        yield


@pytest.mark.usefixtures("in_this_process")
def test_equal_snapshots_end_with_exit_code_0(capsys: Captured) -> None:
    assert main(["diff", CLICKS, f"{CLICKS}/_metadata"]) == 0
    text = capsys.readouterr().out
    assert "\nequal: " in text
    assert "different" not in text
    assert main(["diff", CLICKS, CLICKS, "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["equal"], document["a"], document["b"]) == (True, CLICKS, CLICKS)


@pytest.mark.usefixtures("in_this_process")
def test_different_snapshots_end_with_exit_code_4(capsys: Captured) -> None:
    """Both snapshots are of the same job; three of its states have a time to live, so they contain times."""
    assert main(["diff", HASHMAP, ROCKSDB]) == 4
    captured = capsys.readouterr()
    assert "\ndifferent: 3 of 34 states\n" in captured.out
    assert 'other value: key "user-2", user key "odd": A: 17 bytes 0x' in captured.out
    assert "error" not in captured.err
    assert main(["diff", HASHMAP, ROCKSDB, "--output", "json"]) == 4
    document = json.loads(capsys.readouterr().out)
    unequal_states = [s["state"] for operator in document["operators"] for s in operator["states"] if not s["equal"]]
    assert unequal_states == ["history-for-a-while", "kinds-for-a-while", "last-for-a-while"]


@pytest.mark.usefixtures("in_this_process")
def test_operators_of_different_jobs_are_listed_as_only_in_one(capsys: Captured) -> None:
    assert main(["diff", HASHMAP, CLICKS]) == 4
    text = capsys.readouterr().out
    assert "only in A: operator" in text
    assert "only in B: operator" in text


@pytest.mark.parametrize(
    ("keyword", "argument", "option"),
    [("renames", "numbers=figures", "--rename"), ("drops", "numbers", "--drop")],
)
@pytest.mark.usefixtures("in_this_process")
def test_declared_surgery_that_was_done_counts_as_equal(
    keyword: str, argument: str, option: str, tmp_path: Path, capsys: Captured
) -> None:
    source, target = directory("2-source"), str(tmp_path / "target")
    execute_without_spark(plan_rescale(source, target, **{keyword: [argument]}))
    assert main(["diff", source, target, option, argument]) == 0
    assert "\nequal: " in capsys.readouterr().out
    assert main(["diff", source, target]) == 4


@pytest.mark.usefixtures("in_this_process")
def test_declared_surgery_that_was_not_done_is_a_difference(capsys: Captured) -> None:
    """The second snapshot is the source itself, so each declared rename or drop is reported as a difference."""
    source, target = directory("2-source"), directory("2-source")
    assert main(["diff", source, target, "--rename", "numbers=figures"]) == 4
    assert "only in B: operator" in capsys.readouterr().out
    assert main(["diff", source, target, "--drop", "numbers", "--output", "json"]) == 4
    document = json.loads(capsys.readouterr().out)
    (dropped,) = document["surgery"]["dropped"]
    assert (dropped["label"], dropped["bytes"] > 0) == ("numbers", True)
    clicks = directory("2-clicks")
    assert main(["diff", clicks, clicks, "--drop-state", "shards:owners", "--output", "json"]) == 4
    document = json.loads(capsys.readouterr().out)
    assert [state["name"] for state in document["surgery"]["dropped_states"]] == ["owners"]
    assert [s["state"] for operator in document["operators"] for s in operator["states"] if not s["equal"]] == [
        "owners"
    ]
    assert main(["diff", source, target, "--rename", "nmbers=figures"]) == 2
    assert "did you mean 'numbers" in capsys.readouterr().err
    assert main(["diff", source, target, "--rename", "numbers"]) == 2
    assert "OLD=NEW" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("b", "code", "error"),
    [("/nothing/there", 2, "RequestError"), (directory("1.20-unaligned"), 3, "UnsupportedError")],
)
@pytest.mark.usefixtures("in_this_process")
def test_snapshots_that_cannot_be_compared_end_with_exit_code_2_or_3(
    capsys: Captured, b: str, code: int, error: str
) -> None:
    assert main(["diff", HASHMAP, b, "--output", "json"]) == code
    assert json.loads(capsys.readouterr().out)["error"] == error


def test_diff_runs_its_step_in_a_process() -> None:
    process = in_a_process("diff", HASHMAP, ROCKSDB, "--master", "local[2]", "--output", "json")
    assert process.returncode == 4
    document = json.loads(process.stdout)
    assert document["verdict"] == "different"
    assert document.keys() == fields("diff")


def test_diff_says_that_a_result_is_not_published_yet(capsys: Captured, tmp_path: Path) -> None:
    plan = plan_rescale(CLICKS, str(tmp_path / "target"), ["3"])
    assert main(["diff", CLICKS, plan.target]) == 2
    assert "or the target of a run that has published its result" in capsys.readouterr().err
    claim(plan)
    assert main(["diff", CLICKS, plan.target, "--output", "json"]) == 2
    error = json.loads(capsys.readouterr().out)
    assert error["what"] == "a run has claimed this target, and has not published its result"
