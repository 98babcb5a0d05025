"""Encryption and billing headers of requests for objects.

boto3 takes them as parameters of each call and has no settings for them. The variables have the names that users of
object_store know (Polars, delta-rs, DuckDB's and Arrow's Rust readers): AWS_SERVER_SIDE_ENCRYPTION,
AWS_SSE_KMS_KEY_ID, AWS_SSE_CUSTOMER_KEY_BASE64 and AWS_REQUEST_PAYER.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rescale.text.errors import RequestError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ENCRYPTION_VARIABLE = "AWS_SERVER_SIDE_ENCRYPTION"
KMS_KEY_VARIABLE = "AWS_SSE_KMS_KEY_ID"
CUSTOMER_KEY_VARIABLE = "AWS_SSE_CUSTOMER_KEY_BASE64"
PAYER_VARIABLE = "AWS_REQUEST_PAYER"

VARIABLE_BY_PARAMETER = {
    "ServerSideEncryption": ENCRYPTION_VARIABLE,
    "SSEKMSKeyId": KMS_KEY_VARIABLE,
    "SSECustomerKey": CUSTOMER_KEY_VARIABLE,
    "RequestPayer": PAYER_VARIABLE,
}
"""The variable of each parameter of boto3's calls."""

_KMS_ENCRYPTIONS = ("aws:kms", "aws:kms:dsse")
_ENCRYPTIONS = ("AES256", *_KMS_ENCRYPTIONS)
_CUSTOMER_KEY_BYTES = 32
_REQUESTER = "requester"


@dataclass(frozen=True)
class ObjectSettings:
    """Settings for every object in every bucket: S3 ignores headers that do not apply.

    `customer_key` is SSE-C's key of 32 bytes. It is left out of `repr`, and thus of logs.
    """

    encryption: str | None = None
    kms_key: str | None = None
    customer_key: bytes | None = field(default=None, repr=False)
    requester_pays: bool = False

    @staticmethod
    def read(variables: Mapping[str, str]) -> ObjectSettings:
        """Return the settings in environment variables. Raises `RequestError` if S3 does not accept a value."""
        encryption, kms_key = variables.get(ENCRYPTION_VARIABLE) or None, variables.get(KMS_KEY_VARIABLE) or None
        if encryption not in (None, *_ENCRYPTIONS):
            raise _invalid_setting_error(ENCRYPTION_VARIABLE, " or ".join(_ENCRYPTIONS), encryption)
        if kms_key is not None and encryption not in _KMS_ENCRYPTIONS:
            raise _invalid_setting_error(
                ENCRYPTION_VARIABLE,
                f"{' or '.join(_KMS_ENCRYPTIONS)}, as {KMS_KEY_VARIABLE} is set",
                encryption or "not set",
            )
        payer = variables.get(PAYER_VARIABLE) or None
        if payer not in (None, _REQUESTER):
            raise _invalid_setting_error(PAYER_VARIABLE, _REQUESTER, payer)
        customer_key = _customer_key(variables.get(CUSTOMER_KEY_VARIABLE) or None)
        if customer_key is not None and encryption is not None:
            raise _invalid_setting_error(
                ENCRYPTION_VARIABLE,
                f"no value, as {CUSTOMER_KEY_VARIABLE} is set: S3 encrypts an object once",
                encryption,
            )
        return ObjectSettings(encryption, kms_key, customer_key, payer is not None)

    def apply(self, client: S3Client) -> None:
        """Add the settings to every later call of `client` that has parameters for them."""
        if parameters := self._parameters():

            def add(params: dict[str, Any], model: Any, **_: Any) -> None:
                for name, value in parameters.items():
                    if name in model.input_shape.members:
                        params.setdefault(name, value)

            client.meta.events.register("provide-client-params.s3", add)

    def _parameters(self) -> dict[str, Any]:
        parameters: dict[str, Any] = {}
        if self.encryption is not None:
            parameters["ServerSideEncryption"] = self.encryption
        if self.kms_key is not None:
            parameters["SSEKMSKeyId"] = self.kms_key
        if self.customer_key is not None:
            for side in ("", "CopySource"):
                parameters[f"{side}SSECustomerAlgorithm"] = "AES256"
                parameters[f"{side}SSECustomerKey"] = self.customer_key
        if self.requester_pays:
            parameters["RequestPayer"] = _REQUESTER
        return parameters


def _customer_key(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        key = binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        key = b""
    if len(key) != _CUSTOMER_KEY_BYTES:
        raise _invalid_setting_error(
            CUSTOMER_KEY_VARIABLE, f"{_CUSTOMER_KEY_BYTES} bytes in base64", f"another text of {len(text)} characters"
        )
    return key


def _invalid_setting_error(variable: str, expected: str, value: str) -> RequestError:
    return RequestError(
        f"{variable} has an invalid value",
        expected=expected,
        found=value,
        advice=f"set or unset {variable}",
    )
