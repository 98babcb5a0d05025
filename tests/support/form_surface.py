"""Check that errors in Airflow name no options, commands or variables of a shell."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import rescale
from rescale.airflow.forms.form_advice import reword_for_form
from rescale.text import errors
from rescale.text.errors import RescaleError

COMMANDS = "inspect|plan|run|follow|validate|diff|report|match|discard|virtual-keys|doctor|demo"

_SHELL_WORDING = re.compile(rf"(?<![\w-])--[a-z]|\brescale ({COMMANDS})\b|(?<![{{\w])AWS_[A-Z]|same command")
_OTHER_COMMANDS = re.compile("flink savepoint --type canonical|uv sync --all-extras")
"""Commands of other programs, which users of the form and of the command line have."""

_SENTENCES = ("what", "expected", "advice")
"""Fields of an error whose text is from the code that raises it; the other fields hold given or found values."""

_PACKAGE = Path(rescale.__file__).parent

_COMMAND_LINE = ("cli", "demo", "doctor/flink_cluster.py")
"""Modules whose errors are only shown on a command line."""

_VARIABLES = ("storage/s3/object_settings.py", "storage/s3/s3_client.py")
"""Modules with errors about values of variables, which Airflow's workers and pods also have."""


def is_of_a_shell(text: str) -> bool:
    """Return whether a text has an option, a command of `rescale`, or a variable of the AWS SDKs."""
    return _SHELL_WORDING.search(_OTHER_COMMANDS.sub("", text)) is not None


class Detail(NamedTuple):
    """A field of an error, and the line of code that set it."""

    place: str
    name: str
    value: str

    @property
    def is_in_forms(self) -> bool:
        """Whether Airflow may show the error."""
        path = Path(self.place.rpartition(":")[0])
        ours = path.relative_to(_PACKAGE) if path.is_relative_to(_PACKAGE) else None
        return ours is not None and not any(ours.is_relative_to(other) for other in (*_COMMAND_LINE, *_VARIABLES))

    @property
    def in_a_form(self) -> str:
        """The field as worded for a form."""
        error = RescaleError("")
        setattr(error, self.name, self.value)
        reword_for_form(error)
        return str(getattr(error, self.name))


@contextmanager
def details_of_errors() -> Iterator[list[Detail]]:
    """Yield a list that gets the sentences of every error that is made in the block.

    The list does not keep the errors, because their tracebacks would keep files open.
    """
    details: list[Detail] = []

    def set_detail(error: RescaleError, name: str, value: Any) -> None:
        object.__setattr__(error, name, value)
        if name in _SENTENCES and value is not None:
            details.append(Detail(_place(), name, value if isinstance(value, str) else str(value)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RescaleError, "__setattr__", set_detail, raising=False)
        yield details


def _place() -> str:
    """Return file and line of the code that sets a field of an error, perhaps through `errors` or a context manager."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename in (errors.__file__, contextlib.__file__):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@pytest.fixture(autouse=True)
def errors_can_be_shown_in_forms() -> Iterator[None]:
    """Fail a test that makes an error whose wording for Airflow names options, commands or variables of a shell."""
    with details_of_errors() as details:
        yield
    worded = [detail for detail in details if is_of_a_shell(detail.value) and detail.is_in_forms]
    assert not [(detail.place, detail.in_a_form) for detail in worded if is_of_a_shell(detail.in_a_form)]
