"""An option of a request, with everything that the command line, forms and documentation need.

`rows` has the options of requests. The command line, the steps, the trigger form, windows, the chart's schema, the
reference pages and the advice in errors are made from them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum


class OptionKind(Enum):
    """Kind of value of an option."""

    LINES = "lines"
    """Several texts: the option is repeatable, and its field has a line for each."""

    FILE = "file"
    """A text: the command line reads it from a file; in the form, users enter it in a field."""

    CHOICE = "choice"
    """A value from a list; the first is the default."""

    FLAG = "flag"

    VALUE = "value"
    """A single text."""


class FormSection(StrEnum):
    """The sections of the form, in their order. The first section has no title, and is always open."""

    OPEN = ""
    OPERATORS = "Single operators"
    CHANGED_JOB = "Renamed or dropped operators"
    KAFKA = "Kafka"
    RESULT = "Files and proof"
    STORAGE = "Storage"
    NOWHERE = "nowhere"
    """Section of options that the form does not have."""


class HelpGroup(StrEnum):
    """The groups of a command's help."""

    NONE = ""
    SHAPE = "the new shape"
    CHANGED_JOB = "a job that has changed"


@dataclass(frozen=True)
class Field:
    """A field of the trigger form; `help` is Markdown, `pattern` a regular expression that each line must match.

    With `is_number`, the field takes a single number, which applies to all operators; with `is_text`, one long text.
    """

    name: str
    title: str
    help: str
    section: FormSection
    pattern: str = "."
    is_number: bool = False
    examples: tuple[str, ...] = ()
    is_text: bool = False


NO_FIELD = Field("", "", "", FormSection.NOWHERE)
"""Field of an option that only the command line has."""


@dataclass(frozen=True)
class Option:
    """An option of a request: its name, kind and help, the commands that have it, and its field in the form.

    `name` is the flag without its leading dashes. `choices` maps the values of a choice to their labels in the form; a
    value without a label is for the command line only. `file_noun` names the contents of the file in errors. If values
    start with an operator's name, `operator_separator` separates it from the rest; "" if nothing follows.
    """

    name: str
    kind: OptionKind
    help: str
    commands: tuple[str, ...]
    field: Field
    example: str
    metavar: str = ""
    group: HelpGroup = HelpGroup.NONE
    choices: Mapping[str, str] = dataclasses.field(default_factory=dict)
    file_noun: str = ""
    operator_separator: str | None = None
    changes_result: bool = False
    """Whether a form that sets this option asks for a change. A form without any such option must ask for a copy."""

    @property
    def flag(self) -> str:
        return f"--{self.name}"

    @property
    def attribute(self) -> str:
        """Name of the value in argparse's namespace."""
        return self.name.replace("-", "_")

    @property
    def default(self) -> str:
        """The default value of an option of kind `CHOICE`."""
        return next(iter(self.choices))

    @property
    def unset_value(self) -> list[str] | str | bool | None:
        """The value of an option that is not given."""
        if self.kind is OptionKind.CHOICE:
            return self.default
        return [] if self.kind is OptionKind.LINES else False if self.kind is OptionKind.FLAG else None
