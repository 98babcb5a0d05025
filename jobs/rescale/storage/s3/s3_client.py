"""boto3's client for S3, as the AWS variables configure it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from rescale.errors import RequestError
from rescale.storage.s3.s3_errors import sentence
from rescale.storage.s3.s3_requests import REQUESTS

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ATTEMPTS = 8
"""Of a request, the first one too."""

_CONNECTIONS = 32


def own_client() -> S3Client:
    """As the AWS variables say."""
    try:
        config = Config(
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            max_pool_connections=_CONNECTIONS,
            connect_timeout=10,
            read_timeout=60,
            request_checksum_calculation=_unless_set("AWS_REQUEST_CHECKSUM_CALCULATION"),
            response_checksum_validation=_unless_set("AWS_RESPONSE_CHECKSUM_VALIDATION"),
            s3={"addressing_style": "path"} if _custom_endpoint() else None,
        )
        client: S3Client = boto3.session.Session(region_name=_region()).client("s3", config=config)
    except (BotoCoreError, ValueError) as error:
        raise RequestError(
            f"S3 cannot be used as it is configured: {sentence(error)}",
            advice="check AWS_ENDPOINT_URL, AWS_PROFILE and the other AWS variables",
        ) from None
    REQUESTS.count(client)
    return client


def _region() -> str | None:
    """AWS_REGION, which every other SDK reads; None leaves it to what boto3 reads itself."""
    return os.environ.get("AWS_REGION") or None


def _custom_endpoint() -> bool:
    return bool(os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"))


def _unless_set(variable: str) -> Any:
    """boto3's own reading of the variable where the user set it; else only where a request needs it."""
    return os.environ.get(variable, "when_required").lower()
