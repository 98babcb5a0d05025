"""No sentence that Airflow shows sends its reader to the command line."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rescale
from rescale.errors import RequestError, UnsupportedError
from rescale.names import quoted
from rescale.orchestration.filled_form import request_of
from rescale.orchestration.words import in_words_of_the_form, told_in_words_of_the_form
from rescale.planning.prepare import prepare
from support.filled_forms import filled
from support.pipeline import plan_rescale
from support.snapshots import directory

_PACKAGE = Path(rescale.__file__).parent

_ROOMS = ("flink", "storage", "rocksdb", "snapshot", "planning", "target", "insight", "report")
"""What is said here may be shown in Airflow; the mains and the command line speak for themselves."""

_OF_A_COMMAND_LINE = re.compile(
    r"(?<![\\w-])--[a-z][a-z-]+|rescale (inspect|plan|run|validate|diff|discard|virtual)|AWS_"
)

_OF_FLINK = re.compile(r"flink savepoint --type canonical")


def sentences() -> Iterator[tuple[str, str]]:
    """(file, text) of all strings that are no docstrings and hold a word of a command line."""
    for room in _ROOMS:
        for path in sorted((_PACKAGE / room).rglob("*.py")):
            tree = ast.parse(path.read_text())
            docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
            for node in ast.walk(tree):
                if isinstance(node, ast.JoinedStr):
                    text = "".join(str(part.value) if isinstance(part, ast.Constant) else "0" for part in node.values)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs | parts:
                    text = node.value
                else:
                    continue
                if " " in text and _OF_A_COMMAND_LINE.search(text):
                    yield f"{path.relative_to(_PACKAGE)}:{node.lineno}", text


FOUND = dict(sentences())


def test_there_are_sentences_to_translate() -> None:
    assert len(FOUND) > 10


@pytest.mark.parametrize("where", FOUND)
def test_no_word_of_the_command_line_is_left(where: str) -> None:
    told = _OF_FLINK.sub("", in_words_of_the_form(FOUND[where]))
    assert not _OF_A_COMMAND_LINE.search(told), told


@pytest.mark.parametrize("place", ["/state/clicks", "/my state/it's", "/state/\n"])
def test_a_place_that_a_shell_wants_quoted_is_one_word(place: str) -> None:
    word = quoted(place)
    assert in_words_of_the_form(f"see rescale validate {word} {word}") == "see another validation"
    told = in_words_of_the_form(f"remove it: rescale discard {word}")
    assert told == f'remove it: run "Discard what an unpublished run left" for {word}'


def test_an_error_is_told_in_words_of_the_form() -> None:
    error = RequestError(
        "it is wrong", expected="no --format", advice="ask for --max-parallelism 256; rescale discard /x"
    )
    told_in_words_of_the_form(error)
    assert error.expected == 'no "Format of the result"'
    assert error.advice == 'ask for "Max parallelism" 256; run "Discard what an unpublished run left" for /x'


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--parallelism count=2", '"Shape of single operators" {"count": {"parallelism": 2}}'),
        (
            "--parallelism count=2 --parallelism 'a b=3' --max-parallelism count=64 --max-parallelism 64",
            '"Shape of single operators" {"count": {"parallelism": 2, "max_parallelism": 64}, '
            '"a b": {"parallelism": 3}} "Max parallelism" 64',
        ),
        ("--parallelism 6", '"Parallelism" 6'),
    ],
)
def test_shapes_of_single_operators_are_told_as_their_field_takes_them(options: str, told: str) -> None:
    """`Parallelism` takes a number alone."""
    assert in_words_of_the_form(f"name the others only: {options}; or not") == f"name the others only: {told}; or not"


def test_a_finished_operator_s_advice_can_be_filled_in() -> None:
    with pytest.raises(UnsupportedError) as caught:
        plan_rescale(directory("2-partially-finished"), "/rescaled", ["5"])
    told = in_words_of_the_form(str(caught.value.advice))
    found = re.search(r'"Shape of single operators" (\{.*\}\})', told)
    assert found is not None, told
    values = {"source": directory("2-partially-finished"), "target": "/rescaled", "operators": json.loads(found[1])}
    assert prepare(request_of(filled(**values)))[0].operators


def test_who_has_no_keys_is_told_of_the_connection() -> None:
    advice = "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN (or AWS_PROFILE)"
    assert in_words_of_the_form(advice).startswith('fill in "Connection"')
    told = in_words_of_the_form(f"{advice}, and the bucket's policy")
    assert told.endswith("access of their own; look at the bucket's policy, too")
