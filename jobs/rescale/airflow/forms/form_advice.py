"""Formulates advice for Airflow: it names form fields, tasks and connections instead of options and commands.

`Advice` is data. Its string is the text for the command line; this module makes the text for forms.
"""

from __future__ import annotations

from rescale.options.option import Option
from rescale.options.rows import OPTIONS, option
from rescale.text.advice import About, Mention
from rescale.text.errors import RescaleError

SHAPES_TITLE = "Shape of single operators"
"""Title of the field for shapes that the command line takes as `UID=N`."""

SOURCE_CONNECTION_TITLE = "Connection of the source"
"""Title of the field for the connection of a source in another store."""

DISCARD_TITLE = "Discard what an unpublished run left"

_OPTIONS_PER_OPERATOR = ("parallelism", "max-parallelism")

_WORDING_BY_COMMAND = {
    "again": "clear the task",
    "discard": f'run "{DISCARD_TITLE}" for {{}}',
    "inspect": "the log of the task inspect",
    "run": "a run",
    "validate": "another validation",
}

_EXTRA_ARGS_FIELD = "the connection's service_config.s3.extra_args"

_WORDING_BY_SETTING = {
    "KEYS": 'fill in "Connection" with the id of an Amazon Web Services connection that has access to this place, '
    "or give the workers (the pods, if steps run in pods) access of their own",
    "CONFIGURATION": 'check endpoint_url and region_name in the extra of the connection that "Connection" names',
    "BUCKET": 'check the name of the bucket and the connection that "Connection" names',
    "CHECKSUMS": 'set request_checksum_calculation to "when_supported" in the config_kwargs of the connection\'s extra',
    "HOSTED": 's3.addressing_style to "virtual" in the config_kwargs of the connection\'s extra',
    "PAYER": "requester_pays (the connection's service_config.s3)",
    "AWS_ENDPOINT_URL": "endpoint_url in the connection's extra",
    "AWS_REGION": "region_name in the connection's extra",
    "AWS_CA_BUNDLE": "verify in the connection's extra",
    "AWS_ACCESS_KEY_ID": "login",
    "AWS_SECRET_ACCESS_KEY": "the connection's password",
    "AWS_SESSION_TOKEN": "aws_session_token in the connection's extra",
    "AWS_SERVER_SIDE_ENCRYPTION": f"ServerSideEncryption ({_EXTRA_ARGS_FIELD})",
    "AWS_SSE_KMS_KEY_ID": f"SSEKMSKeyId ({_EXTRA_ARGS_FIELD})",
    "AWS_SSE_CUSTOMER_KEY_BASE64": f"SSECustomerKey ({_EXTRA_ARGS_FIELD})",
}


def form_wording(mention: Mention) -> str:
    """Return the wording in Airflow for an option, a command or an environment variable that advice mentions.

    An option becomes a field of the form, a command becomes a task or DAG, and a variable becomes a setting of the
    connection.
    """
    if mention.about is About.COMMAND:
        return _WORDING_BY_COMMAND[mention.name].format(mention.value)
    if mention.about is About.SETTING:
        sentence = _WORDING_BY_SETTING[mention.name]
        return sentence if mention.value != "source" else _reworded_for_source(sentence)
    if mention.name in _OPTIONS_PER_OPERATOR and "=" in mention.value:
        return f'"{SHAPES_TITLE}" {shape_line(mention.name, mention.value)}'
    return f"{quoted_title(option(mention.name))} {mention.value}".rstrip()


def _reworded_for_source(sentence: str) -> str:
    """Return a sentence about a setting of "Connection", reworded for the source's connection."""
    return sentence.replace('"Connection"', f'"{SOURCE_CONNECTION_TITLE}"').replace(
        "the connection", "the source connection"
    )


def shape_line(option_name: str, value: str) -> str:
    """Return the form's line for the value `UID=N` of an option; a max parallelism becomes `UID=/N`."""
    operator, _, number = value.rpartition("=")
    return f"{operator}={number}" if option_name == "parallelism" else f"{operator}=/{number}"


def quoted_title(row: Option) -> str:
    """Return the title of an option's field, in quotes."""
    return f'"{row.field.title}"'


def reword_for_form(error: RescaleError) -> None:
    """Make an error name fields, tasks and connections instead of options, commands and environment variables."""
    error.reword(form_wording, lambda flag: next((quoted_title(row) for row in OPTIONS if row.flag == flag), flag))
