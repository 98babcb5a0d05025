"""The command line without Spark: answers, errors, exit codes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rescale.cli.main import main, parser
from rescale.errors import RescaleError
from rescale.insight.cluster import VARIABLE
from rescale.planning.asked.request import make_request
from rescale.planning.planner import make_plan
from rescale.target.claim import claim
from rescale.target.places import places_of
from support.pipeline import execute_without_spark, plan_rescale
from support.readme import fields
from support.snapshots import directory, opened, uids

SOURCE = directory("1.20-heap-native")

Captured = pytest.CaptureFixture[str]


def answer(capsys: Captured, *words: str) -> tuple[int, Any]:
    """Exit code and the document on standard output."""
    code = main([*words, "--output", "json"])
    return code, json.loads(capsys.readouterr().out)


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


def test_plan_writes_nothing(capsys: Captured, tmp_path: Path) -> None:
    target = tmp_path / "target"
    code, document = answer(capsys, "plan", SOURCE, "--target", str(target), "--parallelism", "3")
    assert code == 0
    assert document["target"] == str(target)
    assert document.keys() == fields("plan")
    assert list(tmp_path.iterdir()) == []


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


def test_discard_removes_what_a_run_left(capsys: Captured, tmp_path: Path) -> None:
    target = tmp_path / "target"
    plan = make_plan(opened("2-source"), make_request(directory("2-source"), str(target)))
    claim(plan)
    code, document = answer(capsys, "discard", str(target))
    assert code == 0
    assert {Path(uri).name for uri in document["removed"]} == {"claim", f"plan-{plan.digest}.json"}
    assert list(tmp_path.iterdir()) == []
    assert answer(capsys, "discard", str(target)) == (0, {"removed": [], "left": []})
    assert main(["discard", str(target)]) == 0
    assert capsys.readouterr().out.startswith("there is nothing to remove")
    assert document.keys() == fields("discard")


def test_a_target_that_is_refused_stays_as_it_is(capsys: Captured, tmp_path: Path) -> None:
    """Not even a plan is put beside it."""
    published, file = tmp_path / "published", tmp_path / "file"
    shutil.copytree(SOURCE, published)
    file.write_text("x")
    for target, what in ((published, "the target is occupied"), (file, "the target is a file")):
        code, document = answer(capsys, "run", SOURCE, "--target", str(target))
        assert (code, document["what"]) == (2, what)
        assert main(["plan", SOURCE, "--target", str(target)]) == 0
        assert f"a run would be refused: {what}" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == [file, published]


def test_a_claim_without_its_plan_can_be_discarded(capsys: Captured, tmp_path: Path) -> None:
    plan = make_plan(opened("2-source"), make_request(directory("2-source"), str(tmp_path / "target")))
    claim(plan)
    Path(places_of(plan).plan).unlink()
    assert answer(capsys, "discard", str(tmp_path / "target"))[0] == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["/", "s3://bucket"])
def test_discard_does_not_look_through_all_that_there_is(capsys: Captured, target: str) -> None:
    code, document = answer(capsys, "discard", target)
    assert (code, document["what"]) == (2, "the target must be a directory of its own")


def test_discard_leaves_what_no_run_puts_beside_a_target(capsys: Captured, tmp_path: Path) -> None:
    savepoint = tmp_path / "target.rescale"
    shutil.copytree(SOURCE, savepoint)
    before = sorted(savepoint.iterdir())
    code, document = answer(capsys, "discard", str(tmp_path / "target"))
    assert (code, document) == (0, {"removed": [], "left": [str(path) for path in before]})
    assert sorted(savepoint.iterdir()) == before


def test_discard_leaves_a_published_target_alone(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "_metadata").write_bytes(b"published")
    code, document = answer(capsys, "discard", str(tmp_path))
    assert (code, document["error"]) == (2, "RequestError")
    assert (tmp_path / "_metadata").exists()


def damaged(tmp_path: Path) -> str:
    (tmp_path / "_metadata").write_bytes((Path(SOURCE) / "_metadata").read_bytes()[:100])
    return str(tmp_path)


def test_damage_is_told_with_its_place(capsys: Captured, tmp_path: Path) -> None:
    code, document = answer(capsys, "inspect", damaged(tmp_path))
    assert (code, document["exit_code"], document["error"]) == (3, 3, "SnapshotError")
    assert document["path"] == str(tmp_path / "_metadata")
    assert 0 < document["offset"] <= 100
    assert {"error", "what", "exit_code", *RescaleError.DETAILS} == fields("an error") >= document.keys()
    assert main(["inspect", damaged(tmp_path)]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert f"  path: {tmp_path}/_metadata" in captured.err


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["inspect", "/nothing/there"], 2, "RequestError"),
        (["inspect", "ftp://host/save"], 2, "RequestError"),
        (["inspect", "/save\udcff"], 2, "RequestError"),
        (["plan", SOURCE, "--target", "/t\udcff"], 2, "RequestError"),
        (["inspect", SOURCE, "--uids", "/nothing/there"], 2, "RequestError"),
        (["plan", SOURCE, "--target", "/t", "--executors", "many"], 2, "RequestError"),
        (["plan", SOURCE, "--target", f"{SOURCE}/inside"], 2, "RequestError"),
        (["plan", SOURCE, "--target", "/t", "--parallelism", "129"], 2, "RequestError"),
        (["plan", SOURCE, "--target", "/t", "--parallelism", "nobody=2"], 2, "RequestError"),
        (["plan", SOURCE, "--target", "/t", "--parallelism", "many"], 2, "RequestError"),
        (["plan", directory("1.20-unaligned"), "--target", "/t"], 3, "UnsupportedError"),
    ],
)
def test_every_error_has_its_code_and_is_json_if_asked_for(
    capsys: Captured, words: list[str], code: int, error: str
) -> None:
    found, document = answer(capsys, *words)
    assert (found, document["exit_code"], document["error"]) == (code, code, error)
    assert document["what"]


@pytest.mark.parametrize("content", ["", "topic,partition,offset\n", "[]"])
@pytest.mark.parametrize("command", [["plan", SOURCE, "--target", "/t"], ["validate", SOURCE, "/t"]])
def test_a_file_of_offsets_without_any_is_refused(
    capsys: Captured, tmp_path: Path, command: list[str], content: str
) -> None:
    """Nobody names a file so that nothing happens: what should have filled it has failed."""
    file = tmp_path / "offsets"
    file.write_text(content)
    code, error = answer(capsys, *command, "--kafka-offsets", str(file))
    assert (code, error["what"], error["path"]) == (2, "the file of Kafka offsets names no partition", str(file))


@pytest.mark.parametrize(
    "words",
    [
        ["inspect"],
        ["plan", "/a"],
        ["dance"],
        ["inspect", "/a", "--loud"],
        ["discard", "/a", "/b"],
        ["inspect", "/a", "--out", "json"],
        ["run", "/a", "--target", "/b", "--master", "locale[2]"],
    ],
)
def test_words_that_are_not_understood_are_a_request_error(capsys: Captured, words: list[str]) -> None:
    code, document = answer(capsys, *words)
    assert (code, document["error"]) == (2, "RequestError")
    assert "--help" in document["advice"]
    assert main(words) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize(
    "words",
    [
        ["run", SOURCE, "--target", "/t", "--rename", "visits=\udcff"],
        ["plan", SOURCE, "--target", "/t", "--parallelism", "gr\udcf6\udcdfe=3"],
        ["plan", SOURCE, "--target", "/t", "--drop-state", "visits:\udcff"],
        ["inspect", SOURCE, "--uids", "/\udcff"],
        ["inspect", "--\udcff"],
    ],
)
def test_words_that_are_not_utf_8(capsys: Captured, words: list[str]) -> None:
    code, document = answer(capsys, *words)
    assert (code, document["what"]) == (2, "an argument is not UTF-8")
    assert document["found"] == ascii(words[-1])


def test_the_form_of_errors_is_known_before_the_words_are_parsed(capsys: Captured) -> None:
    assert main(["inspect", "--output=json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"] == "RequestError"
    assert main(["inspect", "/a", "--output", "xml"]) == 2
    assert capsys.readouterr().out == ""


def test_an_output_that_knows_few_signs_gets_those() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    rescale = [sys.executable, "-m", "rescale.cli.main", "plan", SOURCE, "--target", "/t", "--parallelism", "5"]
    done = subprocess.run(rescale, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"\\u2192" in done.stdout


@pytest.mark.parametrize("words", [["inspect", SOURCE, "--output", "json"], ["inspect", "/nowhere", "--output=json"]])
def test_a_reader_that_goes_away_ends_it_without_a_word(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    rescale = [sys.executable, "-m", "rescale.cli.main", *words]
    for stderr in (subprocess.PIPE, writing):
        done = subprocess.run(rescale, stdout=writing, stderr=stderr, check=False)
        assert done.returncode == 1
        assert not done.stderr
    os.close(writing)


@pytest.mark.parametrize("words", [["inspect", SOURCE], ["inspect", "/nowhere"]])
@pytest.mark.parametrize("form", [[], ["--output", "json"]])
def test_an_answer_that_cannot_be_written_is_worth_another_try(words: list[str], form: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        rescale = [sys.executable, "-m", "rescale.cli.main", *words, *form]
        done = subprocess.run(rescale, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == (2 if words[1] == "/nowhere" and not form else 1)
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize(
    ("closed", "answers"), [("<&-", True), (">&-", False), ("2>&-", True), ("<&- >&- 2>&-", False)]
)
def test_streams_may_be_closed(tmp_path: Path, closed: str, answers: bool) -> None:
    rescale = shlex.join([sys.executable, "-m", "rescale.cli.main", "run", SOURCE, "--target", f"{tmp_path}/t"])
    done = subprocess.run(["bash", "-c", f"{rescale} {closed}"], capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert (tmp_path / "t/_metadata").exists()
    assert bool(done.stdout) is answers


def test_a_relative_place_needs_a_working_directory(tmp_path: Path) -> None:
    rescale = shlex.join([sys.executable, "-m", "rescale.cli.main", "inspect"])
    for place, code in ((SOURCE, 0), ("savepoint", 2)):
        (tmp_path / "gone").mkdir()
        command = f"cd {tmp_path}/gone && rmdir ../gone && {rescale} {place}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        assert (done.returncode, "working directory" in done.stderr) == (code, code != 0), done.stderr


@pytest.mark.parametrize(
    ("where", "words", "resumes"),
    [
        ("inspect.open_snapshot", ["inspect", SOURCE], False),
        ("run.prepared", ["run", SOURCE, "--target", "/t"], True),
        ("discard.discard", ["discard", "/t"], True),
    ],
)
def test_an_interrupted_command_says_whether_it_goes_on(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, where: str, words: list[str], resumes: bool
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"rescale.cli.commands.{where}", interrupted)
    assert main(words) == 130
    said = capsys.readouterr().err
    assert said.startswith("interrupted")
    assert ("the same command" in said) is resumes
    assert main([*words, "--output", "json"]) == 130
    document = json.loads(capsys.readouterr().out)
    assert (document["error"], document["exit_code"]) == ("KeyboardInterrupt", 130)


def test_a_command_that_is_interrupted_while_it_starts_shows_no_traceback(tmp_path: Path) -> None:
    interrupts = "import sys\nclass Interrupts:\n    def find_spec(self, name, *_):\n"
    interrupts += "        if name == 'rescale.cli.commands.virtual_keys':\n            raise KeyboardInterrupt\n"
    (tmp_path / "sitecustomize.py").write_text(f"{interrupts}sys.meta_path.insert(0, Interrupts())\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    words = [sys.executable, "-m", "rescale.cli.main", "inspect", "/s"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize(
    "command", ["inspect", "plan", "run", "validate", "report", "diff", "discard", "virtual-keys", "demo"]
)
def test_every_command_explains_itself(capsys: Captured, command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: rescale {command}")
    assert "--output" in text
    assert max(map(len, text.partition("For example:")[0].splitlines())) <= 80
    example = text.partition("For example:\n\n  rescale ")[2].strip()
    assert parser().parse_args(example.split()).execute


def test_alone_it_shows_the_way(capsys: Captured) -> None:
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    steps = [line.split() for line in captured.err.splitlines() if line.startswith("  rescale ")]
    assert [step[1] for step in steps] == ["inspect", "plan", "run", "validate"]
    for step in steps:
        assert parser().parse_args(step[1:]).execute


@pytest.mark.parametrize(
    ("words", "question"),
    [
        (["inspekt", "/a"], "did you mean 'inspect'?"),
        (["plan", "/a", "--target", "/b", "--format", "canonicle"], "did you mean 'canonical'?"),
        (["plan", "/a", "--targe", "/b"], "--targe: did you mean '--target'?"),
        (
            ["plan", "/a", "--target", "/b", "--paralelism=3"],
            "--paralelism: did you mean '--parallelism' or '--max-parallelism'?",
        ),
        (["run", SOURCE, "--target", "/t", "--parallelism", "list=2", "--uids", "NAMES"], "did you mean 'lists'?"),
        (["plan", SOURCE, "--target", "/t", "--key-hash", "object-hash(a)"], "did you mean 'objects-hash'?"),
    ],
)
def test_what_is_misspelt_is_asked_about(capsys: Captured, tmp_path: Path, words: list[str], question: str) -> None:
    names = tmp_path / "uids"
    names.write_text("".join(f"{uid}\n" for _, uid in uids("1.20-heap-native")))
    code, document = answer(capsys, *(str(names) if word == "NAMES" else word for word in words))
    assert code == 2
    assert document["advice"].startswith(question), document


def test_a_terminal_obeys_no_name_of_a_file(capsys: Captured, tmp_path: Path) -> None:
    beside = tmp_path / "target.rescale"
    beside.mkdir()
    (beside / "\x1b[2J\x9bm\u202e").touch()
    words = ["discard", str(tmp_path / "target")]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert r"such as " in text
    assert r"\x1b[2J\x9bm\u202e" in text
    assert main([*words, "--output", "json"]) == 0
    printed = capsys.readouterr().out
    assert all(line.isprintable() for line in printed.splitlines())
    assert json.loads(printed)["left"] == [str(beside / "\x1b[2J\x9bm\u202e")]


def test_the_whole_explains_itself(capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert all(command in text for command in ("inspect", "plan", "run", "validate", "diff", "discard", "Exit codes"))
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("rescale ")
