"""Advice about settings of S3, which are variables on the command line, and fields of a connection in Airflow."""

from __future__ import annotations

from string import Formatter

from rescale.storage.s3 import object_settings
from rescale.text.advice import SAME_COMMAND, Advice, Mention, setting

ADDRESSING_VARIABLE = "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"
"""Variable that says whether the host of a request names the bucket (`true`) or the path does (`false`).

boto3 has only a setting in its configuration file; object_store (Polars, delta-rs) has this variable.
"""

_VARIABLES = (
    "AWS_ENDPOINT_URL",
    "AWS_REGION",
    "AWS_CA_BUNDLE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    object_settings.ENCRYPTION_VARIABLE,
    object_settings.KMS_KEY_VARIABLE,
    object_settings.CUSTOMER_KEY_VARIABLE,
)

SETTINGS = {
    "KEYS": "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN (or AWS_PROFILE)",
    "CONFIGURATION": "check AWS_ENDPOINT_URL, AWS_PROFILE and the other AWS variables",
    "BUCKET": "check the name of the bucket and the AWS variables",
    "CHECKSUMS": "set AWS_REQUEST_CHECKSUM_CALCULATION=when_supported",
    "HOSTED": f"{ADDRESSING_VARIABLE}=true",
    "PAYER": f"{object_settings.PAYER_VARIABLE}=requester",
    **{name: name for name in _VARIABLES},
}
"""Wording of each setting on the command line."""


def s3_advice(template: str) -> Advice:
    """Return advice from a template: `{NAME}` stands for a setting, `{AGAIN}` for running the same command again."""
    parts: list[str | Mention] = []
    for text, name, _, _ in Formatter().parse(template):
        parts.append(text)
        if name is not None:
            parts.append(SAME_COMMAND if name == "AGAIN" else setting(name, SETTINGS[name]))
    return Advice(*parts)
