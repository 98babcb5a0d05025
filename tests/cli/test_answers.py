"""What commands answer, in JSON and in text."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.cli.main import main
from rescale.errors import StoreError
from rescale.insight.cluster import VARIABLE
from rescale.report.html_report import html_report
from rescale.report.stored import run_document
from rescale.target.documents import store_report
from rescale.target.places import places_of
from support.answers import Captured, answer
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
    assert all(one["label"] in text for one in document["operators"])


def test_inspect_says_what_another_flink_would_restore(capsys: Captured) -> None:
    code, document = answer(capsys, "inspect", SOURCE, "--for-flink", "2.3")
    assert (code, document["for_flink"]["release"], document["for_flink"]["restores"]) == (0, "2.3", "yes")
    code, error = answer(capsys, "inspect", SOURCE, "--for-flink", "1.5")
    assert (code, error["error"]) == (2, "RequestError")
    assert "'1.18'" in error["what"]


def test_the_metadata_file_itself_may_be_named(capsys: Captured) -> None:
    assert answer(capsys, "inspect", f"{SOURCE}/_metadata") == answer(capsys, "inspect", SOURCE)


def test_a_list_of_uids_gives_operators_their_names(capsys: Captured, tmp_path: Path) -> None:
    names = tmp_path / "uids"
    names.write_text("".join(f"{uid}\n" for _, uid in uids("1.20-heap-native")))
    _, document = answer(capsys, "inspect", SOURCE, "--uids", str(names))
    assert {"states", "lists", "rules"} <= {one["label"] for one in document["operators"]}
    code, plan = answer(capsys, "plan", SOURCE, "--target", "/t", "--uids", str(names), "--parallelism", "lists=2")
    assert code == 0
    assert {one["label"]: one["new_parallelism"] for one in plan["operators"]}["lists"] == 2


def test_names_that_no_operator_goes_by_are_told(capsys: Captured, tmp_path: Path) -> None:
    names = tmp_path / "uids"
    names.write_text("\n".join(["states", "list", f"{'ab' * 16} rules", "cd" * 16, *"0123"]))
    said = f"--uids: list, rules ({'ab' * 16}), {'cd' * 16}, 0, 1 and 2 more; they may be misspelt, or another job's"
    for words in (["inspect", SOURCE], ["plan", SOURCE, "--target", "/t", "--parallelism", "3"]):
        code, document = answer(capsys, *words, "--uids", str(names))
        assert code == 0
        assert [one for one in document["warnings"] if said in one]
    names.write_text("states\n")
    _, document = answer(capsys, "inspect", SOURCE, "--uids", str(names))
    assert not [one for one in document["warnings"] if "--uids" in one]


def test_a_run_warns_of_what_its_plan_warns(capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of names and of the cluster, too, which are not the stored plan's."""
    execute_without_spark(plan_rescale(SOURCE, str(tmp_path / "target"), ["3"]))
    (tmp_path / "uids").write_text("nobody\n")
    monkeypatch.setenv(VARIABLE, "driver-memory=1")
    words = [SOURCE, "--target", str(tmp_path / "target"), "--parallelism", "3", "--uids", str(tmp_path / "uids")]
    planned, run = (answer(capsys, command, *words)[1] for command in ("plan", "run"))
    assert [one for one in planned["warnings"] if "--uids: nobody" in one]
    assert [one for one in planned["warnings"] if "memory" in one]
    assert (run["already_published"], run["warnings"]) == (True, planned["warnings"])


def test_a_run_puts_its_plan_for_people_beside_the_target_and_discard_removes_it(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr("rescale.cli.commands.run.run_own_step", ends)
    assert answer(capsys, "run", SOURCE, "--target", f"{tmp_path}/target", "--parallelism", "3")[0] == 1
    (page,) = (tmp_path / "target.rescale").glob("plan-*.md")
    assert "**" in page.read_text()
    assert str(page) in answer(capsys, "discard", f"{tmp_path}/target")[1]["removed"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("asked", "is_told"), [([], False), (["--proof", "records"], True)])
def test_a_proof_that_is_asked_for_when_all_is_published_is_not_passed_over(
    capsys: Captured, tmp_path: Path, asked: list[str], is_told: bool
) -> None:
    execute_without_spark(plan_rescale(SOURCE, str(tmp_path / "target"), ["3"]))
    assert main(["run", SOURCE, "--target", f"{tmp_path}/target", "--parallelism", "3", *asked]) == 0
    said = "was published before, proven by records; to have it compared by records now: rescale validate "
    assert (said in capsys.readouterr().err) is is_told


def test_a_run_that_ended_right_behind_publication_leaves_no_old_report(capsys: Captured, tmp_path: Path) -> None:
    plan = plan_rescale(SOURCE, str(tmp_path / "target"), ["3"])
    execute_without_spark(plan)
    store_report(plan, b"not published yet")
    code, run = answer(capsys, "run", SOURCE, "--target", plan.target, "--parallelism", "3")
    assert (code, run["already_published"]) == (0, True)
    assert Path(places_of(plan).report).read_bytes() == html_report(run_document(plan))


def test_plan_writes_nothing(capsys: Captured, tmp_path: Path) -> None:
    target = tmp_path / "target"
    code, document = answer(capsys, "plan", SOURCE, "--target", str(target), "--parallelism", "3")
    assert code == 0
    assert document["target"] == str(target)
    assert document.keys() == fields("plan")
    assert document["refused"] is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("word", ["1e3", "٣", "1_000", "", "9" * 5000])
def test_a_shape_is_numbers(capsys: Captured, word: str) -> None:
    assert main(["virtual-keys", "--max-parallelism", word, "--parallelism", "2"]) == 2
    assert "not a number from 1 to 32768" in capsys.readouterr().err


def test_keys_of_a_shape(capsys: Captured) -> None:
    words = ["virtual-keys", "--max-parallelism", "128", "--parallelism", "2"]
    code, document = answer(capsys, *words)
    assert code == 0
    assert document.keys() == fields("virtual-keys")
    assert answer(capsys, *words, "--key-type", "int")[1]["keys"] == {"int": document["keys"]["int"]}
    assert main(words) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["subtask", *document["keys"]]
    assert [list(map(int, row[1:])) for row in rows[2:]] == list(
        map(list, zip(*document["keys"].values(), strict=True))
    )
    assert answer(capsys, *words[:-1], "129")[0] == 2
