"""boto3's client for S3, as the AWS variables configure it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from rescale.storage.s3.object_settings import ObjectSettings
from rescale.storage.s3.s3_advice import ADDRESSING, s3_advice
from rescale.storage.s3.s3_errors import sentence
from rescale.storage.s3.s3_requests import REQUESTS
from rescale.text.errors import RequestError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ATTEMPTS = 8
"""Attempts of a request, the first included."""

CONNECT_SECONDS = 10
READ_SECONDS = 40
"""Seconds to wait for the next bytes of an answer. S3 answers long requests such as CompleteMultipartUpload at once and
sends white space while it works."""

RETRY_SECONDS = 50
"""Seconds after which a request without an answer is not sent again.

Two attempts fit. With the longest pause of botocore between attempts (20 s) a store that accepts connections and stays
silent is reported within two minutes.
"""

_CONNECTIONS = 32

_ADDRESSING_STYLES = {"true": "virtual", "false": "path"}


def own_client() -> S3Client:
    """Return a client that the AWS variables configure; `RequestError` if they do not fit."""
    settings = ObjectSettings.read(os.environ)
    try:
        config = Config(
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            max_pool_connections=_CONNECTIONS,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            request_checksum_calculation=_unless_set("AWS_REQUEST_CHECKSUM_CALCULATION"),
            response_checksum_validation=_unless_set("AWS_RESPONSE_CHECKSUM_VALIDATION"),
            s3=_addressing(os.environ.get(ADDRESSING)),
        )
        client: S3Client = boto3.session.Session(region_name=_region()).client("s3", config=config)
    except (BotoCoreError, ValueError) as error:
        raise RequestError(
            f"S3 cannot be used as it is configured: {sentence(error)}",
            advice=s3_advice("{CONFIGURATION}"),
        ) from None
    settings.apply(client)
    limit_silence(client)
    REQUESTS.count(client)
    return client


def limit_silence(client: S3Client) -> None:
    """Make `client` give up a request that nobody has answered for `RETRY_SECONDS`.

    botocore limits the number of attempts but not their time. Answers, such as "slow down", are not limited here.
    """

    def begin(context: dict[str, Any], **_: Any) -> None:
        context["rescale_give_up_at"] = time.monotonic() + RETRY_SECONDS

    def give_up(caught_exception: Exception | None, request_dict: dict[str, Any], **_: Any) -> None:
        at = request_dict["context"].get("rescale_give_up_at")
        if caught_exception is not None and at is not None and time.monotonic() >= at:
            raise caught_exception

    client.meta.events.register("before-call.s3", begin)
    client.meta.events.register_first("needs-retry.s3", give_up)


def _region() -> str | None:
    """Return AWS_REGION, which every other SDK reads; None leaves the region to what boto3 reads itself."""
    return os.environ.get("AWS_REGION") or None


def _addressing(virtual_hosted: str | None) -> Any:
    """Return the addressing style that the variable names, for boto3.

    None leaves it to the AWS configuration file. Without a style there, boto3 has the bucket in the path if there is a
    custom endpoint, else in the host.
    """
    if not virtual_hosted:
        return None
    style = _ADDRESSING_STYLES.get(virtual_hosted.lower())
    if style is None:
        raise RequestError(
            f"{ADDRESSING} has an invalid value",
            expected=" or ".join(_ADDRESSING_STYLES),
            found=virtual_hosted,
            advice=f"set or unset {ADDRESSING}",
        )
    return {"addressing_style": style}


def _unless_set(variable: str) -> Any:
    """Return the variable's value for boto3 to read, or checksums only where a request needs them."""
    return os.environ.get(variable, "when_required").lower()
