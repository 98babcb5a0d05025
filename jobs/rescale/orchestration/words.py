"""Our sentences in the words of a form: who reads them in Airflow has filled in fields, and typed no command.

What plans, moves and reads knows the command line's words only, for it is the same everywhere. So its sentences are
translated where Airflow shows them: a field's title for an option, a task or a DAG for a command.
"""

from __future__ import annotations

import json
import re
import shlex
from functools import cache

from rescale.errors import RescaleError
from rescale.orchestration.form import rescale_form

_FIELD_OF_OPTION = {
    "--parallelism": "parallelism",
    "--max-parallelism": "max_parallelism",
    "--format": "format",
    "--files": "files",
    "--proof": "proof",
    "--key-hash": "key_hashes",
    "--rename": "renames",
    "--drop": "drops",
    "--kafka-offsets": "kafka_offsets",
    "--kafka-topic": "kafka_topics",
    "--kafka-source": "kafka_sources",
    "--drop-state": "state_drops",
    "--uids": "operator_names",
    "--allow-prefix": "allowed_prefixes",
    "--accept-unconditional-publish": "accept_unconditional_publish",
}

_CONNECTION = (
    'fill in "Connection" with the id of a connection of type Amazon Web Services that may use this place, or give the '
    "workers (where steps are pods: these) access of their own"
)

_KEYS = r"check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN \(or AWS_PROFILE\)"

_PLACE = r"(?:\$?'(?:[^'\\]|\\.)*'|\S)+"
"""As `quoted` writes it."""

_SHAPE = r"--(?:max-)?parallelism (?:'[^']*=[0-9]+'|[^\s'\"$]+=[0-9]+)(?!\S*')"
_SHAPES = re.compile(rf"{_SHAPE}(?: {_SHAPE})*")
"""Options for single operators, which a field of their own takes together."""

_SENTENCES = (
    (r"list their uids, in a file for --uids or in the form,", 'list their uids under "Operator names",'),
    (r", as rescale virtual-keys .*? prints them", ""),
    (r"rescale inspect (says|lists)", r"the log of the task inspect \1"),
    (r", and with --output json which files these are", ""),
    (rf"rescale discard ({_PLACE})", r'run "Discard what an unpublished run left" for \1'),
    (r"run the same command again", "clear the task"),
    (r"compare it with its source: rescale validate;", "compare it with its source;"),
    (rf"rescale validate {_PLACE} {_PLACE}", "another validation"),
    (r"rescale run (\w+)", r"a run \1"),
    (r"--parallelism UID=N", '"Shape of single operators"'),
    (rf"{_KEYS}, and the bucket's policy", f"{_CONNECTION}; look at the bucket's policy, too"),
    (_KEYS, _CONNECTION),
    (
        r"check AWS_ENDPOINT_URL, AWS_PROFILE and the other AWS variables",
        'look at endpoint_url and region_name in the extra of the connection that "Connection" names',
    ),
    (
        r"check the name of the bucket and the AWS variables",
        'check the name of the bucket and the connection that "Connection" names',
    ),
    (
        r"set AWS_REQUEST_CHECKSUM_CALCULATION=when_supported",
        'set request_checksum_calculation to "when_supported" in the config_kwargs of the connection\'s extra',
    ),
    (
        r"let AWS_CA_BUNDLE name the file with the certificate of who has signed it",
        "let verify in the connection's extra name the file with the certificate of who has signed it",
    ),
    (r"set AWS_REGION to the bucket's region", "set region_name in the connection's extra to the bucket's region"),
)

_THE_REST = ((r"(?<![\w-])(?<!savepoint )--([a-z][a-z-]+)", r'"\1"'),)
"""An option that is no field; those of `flink savepoint` stay."""


def in_words_of_the_form(text: str) -> str:
    """A sentence of ours without a word that only the command line has."""
    text = _SHAPES.sub(_field_of_shapes, text)
    for pattern, replacement in _patterns():
        text = pattern.sub(replacement, text)
    return text


def told_in_words_of_the_form(error: RescaleError) -> None:
    """Translates what an error says and advises."""
    error.what = in_words_of_the_form(error.what)
    for name in ("expected", "found", "advice"):
        if (text := getattr(error, name)) is not None:
            setattr(error, name, in_words_of_the_form(text))


def _field_of_shapes(found: re.Match[str]) -> str:
    """Ready to be filled in."""
    shapes: dict[str, dict[str, int]] = {}
    words = shlex.split(found[0])
    for option, word in zip(words[::2], words[1::2], strict=True):
        operator, _, number = word.rpartition("=")
        shapes.setdefault(operator, {})[_FIELD_OF_OPTION[option]] = int(number)
    title = rescale_form()["operators"].schema["title"]
    return f'"{title}" {json.dumps(shapes, ensure_ascii=False)}'


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    form = rescale_form()
    titles = {option: form[field].schema["title"] for option, field in _FIELD_OF_OPTION.items()}
    options = [(rf"{re.escape(option)}(?![\w-])", f'"{title}"') for option, title in titles.items()]
    return [(re.compile(pattern), replacement) for pattern, replacement in (*_SENTENCES, *options, *_THE_REST)]
