"""Creates boto3's client for S3, configured by the AWS variables of the source's or the target's side."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.credentials import ContainerProvider
from botocore.exceptions import BotoCoreError, ClientError, ProfileNotFound

from rescale.storage.s3.foreign_answers import retry_foreign_answers
from rescale.storage.s3.object_settings import ObjectSettings
from rescale.storage.s3.s3_advice import ADDRESSING_VARIABLE, s3_advice
from rescale.storage.s3.s3_errors import one_line_message
from rescale.storage.s3.s3_requests import REQUESTS
from rescale.storage.s3.side_errors import with_store_named
from rescale.storage.sides import (
    StoreSide,
    aws_variables,
    has_own_variables,
    process_environment,
    profile_of,
    variables_of,
)
from rescale.text.errors import RequestError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ATTEMPTS = 8
"""Attempts of a request, including the first."""

CONNECT_SECONDS = 10
READ_SECONDS = 40
"""Seconds to wait for the next bytes of an answer. While S3 works on a long request such as CompleteMultipartUpload, it
sends white space."""

RETRY_SECONDS = 50
"""Seconds after which a request without an answer is not sent again.

Two attempts fit into this time. With the longest pause of botocore between attempts (20 s), a store that accepts
connections but never answers is reported within two minutes.
"""

REDIRECT_STATUSES = (301, 302, 307)
"""Statuses of answers that botocore takes for a redirect to the region of the bucket."""

_CONNECTION_COUNT = 32

_ADDRESSING_STYLES = {"true": "virtual", "false": "path"}


def client_for(side: StoreSide = StoreSide.TARGET) -> S3Client:
    """Return a client, configured by the AWS variables of a side. Raises `RequestError` if they are invalid."""
    variables, profile = variables_of(side, process_environment()), profile_of(side, os.environ)
    own_variables = variables if has_own_variables(side, os.environ) else None
    settings = ObjectSettings.read(variables)
    try:
        with aws_variables(variables):
            config = Config(
                retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
                max_pool_connections=_CONNECTION_COUNT,
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                request_checksum_calculation=_checksum_setting("AWS_REQUEST_CHECKSUM_CALCULATION"),
                response_checksum_validation=_checksum_setting("AWS_RESPONSE_CHECKSUM_VALIDATION"),
                s3=_addressing_style(os.environ.get(ADDRESSING_VARIABLE)),
            )
            client: S3Client = _session(own_variables, profile).client("s3", config=config)
    except ProfileNotFound:
        raise missing_profile_error(str(profile or variables.get("AWS_PROFILE")), variables) from None
    except (BotoCoreError, ValueError) as error:
        what = f"the configuration of S3 is invalid: {one_line_message(error)}"
        raise with_store_named(RequestError(what, advice=s3_advice("{CONFIGURATION}")), side) from None
    settings.apply(client)
    limit_retry_time(client)
    _end_redirects(client)
    retry_foreign_answers(client)
    REQUESTS.count_requests_of(client)
    return client


def missing_profile_error(profile: str, variables: Mapping[str, str]) -> RequestError:
    """Return the error for a profile that neither of AWS's configuration files defines."""
    with aws_variables(variables):
        session = botocore.session.Session()
        files = [session.get_config_variable(name) for name in ("config_file", "credentials_file")]
        known_profiles = session.available_profiles
    return RequestError(
        f"there is no AWS profile {profile!r}",
        path=" and ".join(str(Path(file).expanduser()) for file in files),
        expected=f"one of the profiles {', '.join(known_profiles)}" if known_profiles else "a file with profiles",
        found=profile if known_profiles else "no profiles",
        advice=f"add [profile {profile}] to the first file, or name another profile",
    )


def refuse_unknown_profile(side: StoreSide) -> None:
    """Raise `RequestError` if the side's profile does not exist."""
    profile, variables = profile_of(side, os.environ), variables_of(side, process_environment())
    with aws_variables(variables):
        known_profiles = botocore.session.Session().available_profiles
    if profile is not None and profile not in known_profiles:
        raise missing_profile_error(profile, variables)


def _session(own_variables: Mapping[str, str] | None, profile: str | None) -> boto3.session.Session:
    """Return a session for a profile.

    If the side has variables of its own, `own_variables` is its environment, with which the session renews container
    credentials. Otherwise it is None.
    """
    session = botocore.session.Session(profile=profile)
    if own_variables is not None:
        session.get_component("credential_provider").insert_before("container-role", ContainerProvider(own_variables))
    return boto3.session.Session(region_name=_region(), botocore_session=session)


def limit_retry_time(client: S3Client) -> None:
    """Make `client` give up a request that has had no answer for `RETRY_SECONDS`.

    botocore limits the number of attempts but not their time. A store that does answer, such as by "slow down", gets
    all attempts.
    """

    def begin(context: dict[str, Any], **_: Any) -> None:
        context["rescale_give_up_at"] = time.monotonic() + RETRY_SECONDS

    def give_up(caught_exception: Exception | None, request_dict: dict[str, Any], **_: Any) -> None:
        deadline = request_dict["context"].get("rescale_give_up_at")
        if caught_exception is not None and deadline is not None and time.monotonic() >= deadline:
            raise caught_exception

    client.meta.events.register("before-call.s3", begin)
    client.meta.events.register_first("needs-retry.s3", give_up)


def _end_redirects(client: S3Client) -> None:
    """Make `client` give up a request that is redirected, but not to the region of the bucket.

    To learn the region, botocore sends HeadBucket. If that request is redirected, too, botocore sends another one for
    it, and so on.
    """

    def give_up(response: tuple[Any, Any] | None, **_: Any) -> None:
        if response is not None and response[0].status_code in REDIRECT_STATUSES:
            headers = response[1]["ResponseMetadata"]["HTTPHeaders"]
            if "x-amz-bucket-region" not in headers:
                raise ClientError(response[1], "HeadBucket")

    client.meta.events.register_first("needs-retry.s3.HeadBucket", give_up)


def _region() -> str | None:
    """Return AWS_REGION, which boto3 does not read, unlike other SDKs; None leaves the region to boto3."""
    return os.environ.get("AWS_REGION") or None


def _addressing_style(virtual_hosted: str | None) -> Any:
    """Return boto3's addressing style for the value of the variable `ADDRESSING_VARIABLE`.

    None leaves the style to the AWS configuration file. If that sets none, boto3 puts the bucket into the path for a
    custom endpoint, else into the host.
    """
    if not virtual_hosted:
        return None
    style = _ADDRESSING_STYLES.get(virtual_hosted.lower())
    if style is None:
        raise RequestError(
            f"{ADDRESSING_VARIABLE} has an invalid value",
            expected=" or ".join(_ADDRESSING_STYLES),
            found=virtual_hosted,
            advice=f"set or unset {ADDRESSING_VARIABLE}",
        )
    return {"addressing_style": style}


def _checksum_setting(variable: str) -> Any:
    """Return the value of a variable; if it is unset, the value by which boto3 uses checksums only where required."""
    return os.environ.get(variable, "when_required").lower()
