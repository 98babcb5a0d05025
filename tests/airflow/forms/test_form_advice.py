"""Errors in Airflow name fields of the form, tasks and connections."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rescale
from rescale.airflow.forms.filled_form import request_of
from rescale.airflow.forms.form import rescale_form
from rescale.airflow.forms.form_advice import SHAPES_TITLE, form_wording, reword_for_form
from rescale.options.option import Option
from rescale.options.rows import OPTIONS
from rescale.planning.prepare import prepare
from rescale.storage.s3.s3_advice import SETTINGS
from rescale.text.advice import About, Advice, Mention, command, mention
from rescale.text.errors import RequestError, UnsupportedError
from support.filled_forms import PLACES, filled
from support.pipeline import plan_rescale
from support.snapshots import directory


@pytest.mark.parametrize("row", OPTIONS, ids=lambda row: row.name)
def test_option_is_mentioned_by_the_title_of_its_field(row: Option) -> None:
    assert form_wording(mention(row.name)) == f'"{row.field.title}"' != '""'


def called(function: str) -> Iterator[str]:
    """Yield the first argument of every call of a function of `rescale.text.advice` in the package."""
    for path in Path(rescale.__file__).parent.rglob("*.py"):
        if "rescale.text.advice import" in (text := path.read_text(encoding="utf-8")):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function:
                    yield ast.literal_eval(node.args[0])


def test_airflow_has_a_wording_for_every_command_and_setting() -> None:
    commands = set(called("command"))
    assert {"discard", "inspect", "validate"} <= commands
    mentions = [Mention(About.COMMAND, name, "", f"rescale {name}") for name in commands]
    mentions += [Mention(About.SETTING, name, "", text) for name, text in SETTINGS.items()]
    for mentioned in mentions:
        assert form_wording(mentioned) != mentioned.text


def test_error_is_worded_for_the_form() -> None:
    advice = Advice("ask for ", mention("max-parallelism", 256), "; or ", command("discard", "/x"))
    error = RequestError("it is wrong", option="--format", advice=advice)
    reword_for_form(error)
    assert error.option == '"Format of the result"'
    assert error.advice == 'ask for "Max parallelism" 256; or run "Discard what an unpublished run left" for /x'


def test_refused_value_names_its_field() -> None:
    with pytest.raises(RequestError) as caught:
        request_of(filled(**PLACES, renames=["a=b", "a=c"]))
    reword_for_form(caught.value)
    assert caught.value.option == '"Operators to rename"'


def test_shapes_of_single_operators_are_mentioned_as_lines_of_their_field() -> None:
    assert rescale_form()["operators"].schema["title"] == SHAPES_TITLE
    assert form_wording(mention("parallelism", "a b=2")) == f'"{SHAPES_TITLE}" a b=2'
    assert form_wording(mention("max-parallelism", "count=64")) == f'"{SHAPES_TITLE}" count=/64'
    assert form_wording(mention("max-parallelism", 64)) == '"Max parallelism" 64'


def test_advice_about_a_finished_operator_can_be_filled_in() -> None:
    with pytest.raises(UnsupportedError) as caught:
        plan_rescale(directory("2-partially-finished"), "/rescaled", ["5"])
    reword_for_form(caught.value)
    shapes = re.findall(rf'"{SHAPES_TITLE}" (\S+=[0-9/]+)', str(caught.value.advice))
    assert shapes
    values = {"source": directory("2-partially-finished"), "target": "/rescaled", "operators": shapes}
    assert prepare(request_of(filled(**values)))[0].operators
