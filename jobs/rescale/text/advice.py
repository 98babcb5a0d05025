"""Advice as data: a sentence with mentions of options, commands and settings, which Airflow names differently.

The command line says `--max-parallelism 256` where a form has the field *Max parallelism*, and `rescale discard TARGET`
where Airflow has a DAG. As a string, advice has the wording of the command line; `worded` returns another wording.
Compose advice with `Advice(…)`: an f-string would turn it into a plain string without mentions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple, Self

from rescale.text.names import encodable, quoted


class About(StrEnum):
    """The kind of thing that a mention names."""

    OPTION = "option"
    COMMAND = "command"
    SETTING = "setting"


class Mention(NamedTuple):
    """An option, a command or a setting by its name; `text` is its wording on a command line.

    `value` is the value of the option or the arguments of the command, "" for none. For a setting that source and
    target can have separately, `value` is `source` or `target`.
    """

    about: About
    name: str
    value: str
    text: str


AdvicePart = str | tuple[About, str, str, str]
"""A part of advice in a document: a text, or the fields of a `Mention`."""


class Advice(str):
    """A sentence made of texts and mentions (`parts`)."""

    __slots__ = ("parts",)
    parts: tuple[str | Mention, ...]

    def __new__(cls, *parts: str | Mention) -> Self:
        flat_parts = [piece for part in parts for piece in (part.parts if isinstance(part, Advice) else (part,))]
        advice = super().__new__(
            cls, "".join(piece.text if isinstance(piece, Mention) else piece for piece in flat_parts)
        )
        advice.parts = tuple(flat_parts)
        return advice

    def __getnewargs__(self) -> tuple[str | Mention, ...]:  # type: ignore[override]
        return self.parts

    def worded(self, wording: Callable[[Mention], str]) -> str:
        """Return the sentence with each mention in the words of `wording`."""
        return "".join(wording(part) if isinstance(part, Mention) else part for part in self.parts)

    def document(self) -> tuple[AdvicePart, ...]:
        """Return the parts of the advice as they are in a document; UTF-8 can encode all their texts."""
        return tuple(
            (part.about, encodable(part.name), encodable(part.value), encodable(part.text))
            if isinstance(part, Mention)
            else encodable(part)
            for part in self.parts
        )

    @classmethod
    def of_document(cls, parts: Iterable[AdvicePart]) -> Self:
        """Return the advice whose method `document` returned these parts."""
        return cls(*(part if isinstance(part, str) else Mention(*part) for part in parts))


def mention(name: str, value: object = None) -> Mention:
    """Return a mention of an option of a request, such as `max-parallelism`, with the value to give it."""
    text = "" if value is None else str(value)
    return Mention(About.OPTION, name, text, f"--{name} {quoted(text)}" if text else f"--{name}")


def command(name: str, arguments: str = "") -> Mention:
    """Return a mention of a command of `rescale` with its arguments, quoted for a shell."""
    return Mention(About.COMMAND, name, arguments, f"rescale {name} {arguments}".rstrip())


def setting(name: str, text: str) -> Mention:
    """Return a mention of a setting outside of Rescale, such as access to S3; `text` says what to do in a shell."""
    return Mention(About.SETTING, name, "", text)


def joined(separator: str, pieces: Iterable[str | Mention]) -> Advice:
    """Return advice of the pieces, with a separator between them."""
    parts = [part for piece in pieces for part in (separator, piece)]
    return Advice(*parts[1:])


SAME_COMMAND = Mention(About.COMMAND, "again", "", "run the same command again")


def advice_of_text(text: str) -> Advice:
    """Return the advice that was printed as `text`. Of its mentions, only `SAME_COMMAND` is recognised."""
    before, same_command, after = text.partition(SAME_COMMAND.text)
    return Advice(*(part for part in (before, SAME_COMMAND if same_command else "", after) if part))
