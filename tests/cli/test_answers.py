"""Answers of commands in JSON and in text."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from rescale.cli.main import main
from rescale.insight.cluster import CLUSTER_VARIABLE
from rescale.report.report_page import html_report
from rescale.report.stored import run_document
from rescale.runstate.documents import put_document
from rescale.runstate.places import places_of
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import StoreError
from support.commands import Captured, answer
from support.pipeline import execute_without_spark, plan_rescale
from support.readme import fields
from support.snapshots import directory, uids

SOURCE = directory("1.20-heap-native")


def test_inspect_answers_in_json_and_in_text(capsys: Captured) -> None:
    code, document = answer(capsys, "inspect", SOURCE)
    assert code == 0
    assert document["snapshot"] == SOURCE
    assert document.keys() == fields("inspect")
    assert main(["inspect", SOURCE]) == 0
    text = capsys.readouterr().out
    assert text.startswith(SOURCE)
    assert all(operator["label"] in text for operator in document["operators"])


def test_inspect_for_flink_says_whether_that_release_restores_the_snapshot(capsys: Captured) -> None:
    code, document = answer(capsys, "inspect", SOURCE, "--for-flink", "2.3")
    assert (code, document["for_flink"]["release"], document["for_flink"]["restores"]) == (0, "2.3", "yes")
    code, error = answer(capsys, "inspect", SOURCE, "--for-flink", "1.5")
    assert (code, error["error"]) == (2, "RequestError")
    assert "'1.18'" in error["what"]


@pytest.mark.parametrize("misspelt_name", ["targte", "target.rescale"])
def test_validate_says_what_a_misspelt_target_should_be(capsys: Captured, tmp_path: Path, misspelt_name: str) -> None:
    execute_without_spark(plan_rescale(SOURCE, str(tmp_path / "target"), ["3"]))
    code, error = answer(capsys, "validate", SOURCE, str(tmp_path / misspelt_name))
    assert (code, error["what"]) == (2, "there is no published result")
    assert error["expected"] == "the target of a run that has published its result"
    assert "the run reported as published" in error["advice"]


@pytest.mark.parametrize("source", [SOURCE, f"{SOURCE}/_metadata", f"{SOURCE}/../snapshot"])
def test_validate_does_not_compare_a_snapshot_with_itself(capsys: Captured, source: str) -> None:
    code, error = answer(capsys, "validate", source, SOURCE)
    assert (code, error["path"]) == (2, SOURCE)
    assert "the same place" in error["what"]


def test_inspect_shows_all_other_operators_if_one_cannot_be_read(capsys: Captured, tmp_path: Path) -> None:
    copy = shutil.copytree(SOURCE, tmp_path / "snapshot")
    _, undamaged_document = answer(capsys, "inspect", str(copy))
    operator = next(entry for entry in open_snapshot(str(copy)).operators if entry.keyed)
    extent = operator.keyed[0].extent
    with Path(open_snapshot(str(copy)).files[extent.file][0]).open("r+b") as file:
        file.seek(extent.start)
        file.write((5).to_bytes(4, "big"))  # the version of `KeyedBackendSerializationProxy` in Flink 1.6
    code, document = answer(capsys, "inspect", str(copy))
    assert code == 3
    (error,) = document["unread"]
    assert (error["operator"], error["found"]) == (operator.label, "5")
    assert "1.3 to 1.6" in error["advice"]
    other_operators = [
        entry for entry in undamaged_document["operators"] if entry["operator_id"] != operator.operator_id
    ]
    assert [entry for entry in document["operators"] if entry["operator_id"] != operator.operator_id] == other_operators
    assert main(["inspect", str(copy)]) == 3
    text = capsys.readouterr()
    assert all(entry["label"] in text.out for entry in undamaged_document["operators"])
    assert error["advice"] in text.err


def test_inspect_accepts_the_metadata_file_itself(capsys: Captured) -> None:
    assert answer(capsys, "inspect", f"{SOURCE}/_metadata") == answer(capsys, "inspect", SOURCE)


def test_list_of_uids_names_operators(capsys: Captured, tmp_path: Path) -> None:
    uids_file = tmp_path / "uids"
    uids_file.write_text("".join(f"{uid}\n" for _, uid in uids("1.20-heap-native")))
    _, document = answer(capsys, "inspect", SOURCE, "--uids", str(uids_file))
    assert {"states", "lists", "rules"} <= {operator["label"] for operator in document["operators"]}
    code, plan = answer(capsys, "plan", SOURCE, "--target", "/t", "--uids", str(uids_file), "--parallelism", "lists=2")
    assert code == 0
    assert {operator["label"]: operator["new_parallelism"] for operator in plan["operators"]}["lists"] == 2


def test_uids_that_no_operator_has_are_warned_of(capsys: Captured, tmp_path: Path) -> None:
    uids_file = tmp_path / "uids"
    uids_file.write_text("\n".join(["states", "list", f"{'ab' * 16} rules", "cd" * 16, *"0123"]))
    message = f"has these names: list, rules ({'ab' * 16}), {'cd' * 16}, 0, 1 and 2 more; they may be misspelt"
    for arguments in (["inspect", SOURCE], ["plan", SOURCE, "--target", "/t", "--parallelism", "3"]):
        code, document = answer(capsys, *arguments, "--uids", str(uids_file))
        assert code == 0
        assert [warning for warning in document["warnings"] if message in warning]
    uids_file.write_text("states\n")
    _, document = answer(capsys, "inspect", SOURCE, "--uids", str(uids_file))
    assert not [warning for warning in document["warnings"] if "--uids" in warning]


def test_run_gives_the_warnings_of_its_plan(capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings of unknown uids and of the cluster's limits are included, although the stored plan has neither."""
    execute_without_spark(plan_rescale(SOURCE, str(tmp_path / "target"), ["3"]))
    (tmp_path / "uids").write_text("nobody\n")
    monkeypatch.setenv(CLUSTER_VARIABLE, "driver-memory=1")
    arguments = [SOURCE, "--target", str(tmp_path / "target"), "--parallelism", "3", "--uids", str(tmp_path / "uids")]
    plan_answer, run_answer = (answer(capsys, command, *arguments)[1] for command in ("plan", "run"))
    assert [warning for warning in plan_answer["warnings"] if "has these names: nobody" in warning]
    assert [warning for warning in plan_answer["warnings"] if "memory" in warning]
    assert (run_answer["already_published"], run_answer["warnings"]) == (True, plan_answer["warnings"])


def test_run_leaves_its_plan_as_markdown_beside_the_target_and_discard_removes_it(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_on_full_disk(_: object, __: object, meanwhile: Callable[[], str]) -> None:
        meanwhile()
        raise StoreError("the disk is full")

    monkeypatch.setattr("rescale.cli.commands.run.lasting_mover", lambda *_: nullcontext(fail_on_full_disk))
    assert answer(capsys, "run", SOURCE, "--target", f"{tmp_path}/target", "--parallelism", "3")[0] == 1
    (page,) = (tmp_path / "target.rescale").glob("plan-*.md")
    assert "**" in page.read_text()
    assert str(page) in answer(capsys, "discard", f"{tmp_path}/target")[1]["removed"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("proof_arguments", "is_advised"), [([], False), (["--proof", "records"], True)])
def test_proof_asked_of_a_published_result_gets_advice_to_validate(
    capsys: Captured, tmp_path: Path, proof_arguments: list[str], is_advised: bool
) -> None:
    execute_without_spark(plan_rescale(SOURCE, str(tmp_path / "target"), ["3"]))
    assert main(["run", SOURCE, "--target", f"{tmp_path}/target", "--parallelism", "3", *proof_arguments]) == 0
    message = "was already published, proven by records; to compare it by records now: rescale validate "
    assert (message in capsys.readouterr().err) is is_advised


def test_repeated_run_of_a_published_plan_renews_the_report(capsys: Captured, tmp_path: Path) -> None:
    plan = plan_rescale(SOURCE, str(tmp_path / "target"), ["3"])
    execute_without_spark(plan)
    put_document(places_of(plan).report, b"not published yet")
    code, run_answer = answer(capsys, "run", SOURCE, "--target", plan.target, "--parallelism", "3")
    assert (code, run_answer["already_published"]) == (0, True)
    assert Path(places_of(plan).report).read_bytes() == html_report(run_document(plan))


def test_plan_writes_nothing(capsys: Captured, tmp_path: Path) -> None:
    target = tmp_path / "target"
    code, document = answer(capsys, "plan", SOURCE, "--target", str(target), "--parallelism", "3")
    assert code == 0
    assert document["target"] == str(target)
    assert document.keys() == fields("plan")
    assert document["refused"] is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("max_parallelism", ["1e3", "٣", "1_000", "", "9" * 5000])
def test_max_parallelism_that_is_no_number_is_refused(capsys: Captured, max_parallelism: str) -> None:
    assert main(["virtual-keys", "--max-parallelism", max_parallelism, "--parallelism", "2"]) == 2
    assert "not a number from 1 to 32768" in capsys.readouterr().err


def test_virtual_keys_lists_a_key_for_each_subtask(capsys: Captured) -> None:
    arguments = ["virtual-keys", "--max-parallelism", "128", "--parallelism", "2"]
    code, document = answer(capsys, *arguments)
    assert code == 0
    assert document.keys() == fields("virtual-keys")
    assert answer(capsys, *arguments, "--key-type", "int")[1]["keys"] == {"int": document["keys"]["int"]}
    assert main(arguments) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["subtask", *document["keys"]]
    assert [list(map(int, row[1:])) for row in rows[2:]] == list(
        map(list, zip(*document["keys"].values(), strict=True))
    )
    assert answer(capsys, *arguments[:-1], "129")[0] == 2
