"""Options of the command line: values that are given twice, or look like options."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from rescale.cli.main import main, parser
from support.commands import commands
from support.snapshots import directory

Captured = pytest.CaptureFixture[str]


def single_valued_options() -> Iterator[tuple[str, list[str], str]]:
    """Yield (command, names of the option, a value) for each option that takes one value."""
    for name, command in commands().items():
        for action in command._actions:
            if action.option_strings and action.nargs is None and not isinstance(action.default, list):
                value = str(next(iter(action.choices))) if action.choices else "1"
                yield name, list(action.option_strings), "local[1]" if action.dest == "master" else value


@pytest.mark.parametrize(("command", "option_names", "value"), [*single_valued_options()])
def test_single_valued_option_given_twice_is_refused(
    capsys: Captured, command: str, option_names: list[str], value: str
) -> None:
    assert main([command, option_names[0], value, f"{option_names[-1]}={value}"]) == 2
    output = capsys.readouterr()
    assert f"argument {'/'.join(option_names)}: given more than once" in output.err + output.out
    assert f"see rescale {command} --help" in output.err + output.out


def test_option_given_twice_is_an_error_in_json(capsys: Captured) -> None:
    command_line = ["plan", directory("2-clicks"), "--target", "/t", "--target", "/u", "--output", "json"]
    assert main(command_line) == 2
    error = json.loads(capsys.readouterr().out)
    assert (error["error"], error["exit_code"]) == ("RequestError", 2)
    assert error["what"].startswith("argument --target: given more than once")


def test_repeated_options_add_up_within_one_command_line_only() -> None:
    command_parser = parser()
    for _ in range(2):
        command_line = ["plan", "/s", "--target", "/t", "--parallelism", "a=1", "--parallelism", "b=2", "--drop", "c"]
        arguments = command_parser.parse_args(command_line)
        assert (arguments.target, arguments.parallelism, arguments.drop) == ("/t", ["a=1", "b=2"], ["c"])


def test_two_dashes_may_be_the_value_of_an_option(capsys: Captured) -> None:
    arguments = parser().parse_args(["run", "/s", "--target=--", "--drop=--", "--drop", "a"])
    assert (arguments.target, arguments.drop) == ("--", ["--", "a"])
    assert main(["run", "/s", "--target", "/t", "--proof=--"]) == 2
    assert "invalid choice: '--'" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--output", "json"], ["--output=json"], ["-o", "x"]])
def test_option_before_the_command_gets_advice_on_its_place(capsys: Captured, option: list[str]) -> None:
    assert main([*option, "inspect", "/s"]) == 2
    output = capsys.readouterr()
    assert f"write {option[0].partition('=')[0]} after the command; see rescale --help" in output.err + output.out
