"""The command line explains itself and suggests corrections of misspelt words."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.cli.main import main, parser
from support.commands import Captured, answer, commands
from support.snapshots import directory, uids

SOURCE = directory("1.20-heap-native")


@pytest.mark.parametrize("command", [*commands()])
def test_every_command_has_help_with_an_example(capsys: Captured, command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: rescale {command}")
    assert "--output" in text
    assert max(map(len, text.partition("For example:")[0].splitlines())) <= 80
    example = text.partition("For example:\n\n  rescale ")[2].strip()
    assert parser().parse_args(example.split()).execute


def test_command_line_without_arguments_shows_the_first_steps(capsys: Captured) -> None:
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    steps = [line.split() for line in captured.err.splitlines() if line.startswith("  rescale ")]
    assert [step[1] for step in steps] == ["inspect", "plan", "run", "validate"]
    for step in steps:
        assert parser().parse_args(step[1:]).execute


@pytest.mark.parametrize(
    ("arguments", "question"),
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
def test_misspelt_word_gets_a_suggestion(capsys: Captured, tmp_path: Path, arguments: list[str], question: str) -> None:
    uids_file = tmp_path / "uids"
    uids_file.write_text("".join(f"{uid}\n" for _, uid in uids("1.20-heap-native")))
    code, document = answer(capsys, *(str(uids_file) if word == "NAMES" else word for word in arguments))
    assert code == 2
    assert document["advice"].startswith(question), document


def test_help_lists_commands_and_exit_codes(capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert all(word in text for word in (*commands(), "Exit codes"))
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("rescale ")
