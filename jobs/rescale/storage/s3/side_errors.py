"""Errors of S3 if source and target are in two stores: they name the store, and the settings of its side."""

from __future__ import annotations

import os
import re
from typing import TypeVar

from botocore.session import Session

from rescale.storage.sides import (
    StoreSide,
    aws_variables,
    has_own_variables,
    has_two_stores,
    process_environment,
    profile_of,
    variables_of,
)
from rescale.text.advice import About, Advice, Mention
from rescale.text.errors import RescaleError

E = TypeVar("E", bound=RescaleError)

_AWS_PREFIX = re.compile(r"\bAWS_")

_PROFILE_TEXTS = {
    "KEYS": "check the keys of the AWS profile {}",
    "CONFIGURATION": "check the AWS profile {}",
    "BUCKET": "check the name of the bucket and the AWS profile {}",
    **{name: name.lower() for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")},
}
"""Text in advice for each setting that a side with an AWS profile (`{}`) takes from this profile alone."""


def with_store_named(error: E, side: StoreSide) -> E:
    """Return an error of S3 that names the store of a side, if source and target are in two stores."""
    if not has_two_stores():
        return error
    store, advice = _description(side), error.advice
    if isinstance(advice, Advice):
        advice = Advice(*(_part_for_side(part, side) for part in advice.parts))
    found_text = store if error.found is None else f"{error.found}, from {store}"
    return error.recast(type(error), error.what, found=found_text, advice=advice)


def _description(side: StoreSide) -> str:
    """Return a phrase for the store of a side, with its profile and its endpoint if it has them."""
    profile, variables = profile_of(side, os.environ), variables_of(side, process_environment())
    with aws_variables(variables):
        configured_endpoint = Session(profile=profile).get_scoped_config().get("endpoint_url")
    endpoint = variables.get("AWS_ENDPOINT_URL_S3") or variables.get("AWS_ENDPOINT_URL") or configured_endpoint
    details = [*([f"AWS profile {profile}"] if profile else []), *([f"endpoint {endpoint}"] if endpoint else [])]
    return f"the {side.value.lower()}'s store" + (f" ({', '.join(details)})" if details else "")


def _part_for_side(part: str | Mention, side: StoreSide) -> str | Mention:
    """Return a part of advice; a setting in it is named as the side has it: by own variables or an AWS profile."""
    if not isinstance(part, Mention) or part.about is not About.SETTING:
        return part
    profile, text = profile_of(side, os.environ), part.text
    if profile and part.name in _PROFILE_TEXTS:
        text = _PROFILE_TEXTS[part.name].format(profile)
    elif has_own_variables(side, os.environ):
        text = _AWS_PREFIX.sub(f"{side.prefix}AWS_", text)
    return part._replace(value=side.value.lower(), text=text)
