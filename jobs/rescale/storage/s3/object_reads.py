"""GetObject for a part of the CPU that boto3 takes for it: small reads by the thousand are what looking costs on S3.

botocore still says where a bucket's objects lie, whose credentials count and which settings, and signs every request;
connections are opened as it has them. Left out is what it does for requests of any service: to check and to build them
from a model, to resolve endpoints, to call handlers. What is no object comes as the error that boto3 raises; what it
would follow elsewhere, as to another region, send by a proxy or put together of chunks, is left to it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError
from botocore.parsers import RestXMLParser
from botocore.utils import percent_encode

from rescale.storage.s3.http_get import Answer, get
from rescale.storage.s3.s3_client import ATTEMPTS
from rescale.storage.s3.s3_requests import REQUESTS

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import GetObjectOutputTypeDef
    from urllib3 import HTTPConnectionPool

_HEADERS = {"Range": "Range", "IfMatch": "If-Match"}
_SAFE = "/~"
"""In a key, as botocore has it."""

_SOME_KEY = "x"
_FOUND = (200, 206)
_SIGNED_PLAINLY = ("v4", "s3v4")
_BUSY = (429, 500, 502, 503, 504)
_ELSEWHERE = (301, 302, 307)
_FOLLOWED = (*_ELSEWHERE, 400)
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 20.0
"""Seconds between two tries."""


@dataclass(frozen=True)
class _Address:
    """Where the objects of a bucket lie, and how requests there are signed."""

    prefix: str
    headers: dict[str, str]
    pool: HTTPConnectionPool
    signer: Any
    signed_by: tuple[str, str, str]

    def ask(self, key: str, headers: dict[str, str], seconds: tuple[int, int]) -> Answer:
        url = self.prefix + percent_encode(key, safe=_SAFE)
        request = AWSRequest("GET", url=url, headers={**self.headers, **headers})
        self.signer.get_auth_instance(*self.signed_by).add_auth(request)
        return get(self.pool, url[url.index("/", len("https://")) :], request.headers.items(), seconds)


class ObjectReads:
    """`client.get_object` with Bucket, Key, Range and IfMatch; safe to use from many threads."""

    def __init__(self, client: S3Client) -> None:
        self._client = client
        settings: Any = client.meta.config
        self._seconds = settings.connect_timeout, settings.read_timeout
        # Who asks that checksums are looked at gets all of botocore.
        self._is_plain = settings.response_checksum_validation == "when_required"
        self._parser = RestXMLParser()
        self._shape: Any = client.meta.service_model.operation_model("GetObject").output_shape
        self._places: dict[str, _Address | None] = {}
        self._looking = threading.local()
        client.meta.events.register_last("before-sign.s3.GetObject", self._see)

    def get_object(self, **wanted: Any) -> GetObjectOutputTypeDef:
        """Raises as the client does."""
        bucket, key = wanted["Bucket"], wanted["Key"]
        if bucket not in self._places:
            self._places[bucket] = self._place(bucket) if self._is_plain else None
        place = self._places[bucket]
        if place is None:
            return self._client.get_object(**wanted)
        headers = {header: wanted[name] for name, header in _HEADERS.items() if name in wanted}
        REQUESTS.ask()
        for attempt in range(ATTEMPTS):
            REQUESTS.send("GetObject")
            try:
                answer = place.ask(key, headers, self._seconds)
                if answer.size < 0 or answer.status in _FOLLOWED:
                    answer.close()
                    if answer.status in _ELSEWHERE:
                        self._places[bucket] = None
                    return self._client.get_object(**wanted)
                if answer.status in _FOUND:
                    return cast(
                        "GetObjectOutputTypeDef",
                        {"ContentLength": answer.size, "ETag": answer.headers.get("etag", ""), "Body": answer},
                    )
                error = self._error(answer)
            except (HTTPClientError, IncompleteReadError):
                if attempt == ATTEMPTS - 1:
                    raise
            else:
                if attempt == ATTEMPTS - 1 or answer.status not in _BUSY:
                    raise error
            time.sleep(min(_LONGEST_PAUSE, _SHORTEST_PAUSE * 2**attempt))
        raise AssertionError("the last attempt returns or raises")

    def _error(self, answer: Answer) -> ClientError:
        read = {"headers": answer.headers, "status_code": answer.status, "body": answer.read()}
        return ClientError(self._parser.parse(read, self._shape), "GetObject")

    def _place(self, bucket: str) -> _Address | None:
        """What a request looks like that botocore is about to sign; None if it goes in a way of its own."""
        self._looking.now = True
        try:
            self._client.get_object(Bucket=bucket, Key=_SOME_KEY)
        except _SeenError as seen:
            REQUESTS.ask(-1)  # nothing is sent
            return seen.place
        finally:
            self._looking.now = False
        raise AssertionError("nothing is sent")

    def _see(self, request: Any, request_signer: Any, **how: Any) -> None:
        if not getattr(self._looking, "now", False):
            return
        signed_by = (how["signing_name"], how["region_name"], how["signature_version"])
        prefix, session = request.url.removesuffix(_SOME_KEY), self._client._endpoint.http_session  # type: ignore[attr-defined]
        if signed_by[2] not in _SIGNED_PLAINLY or "?" in prefix or session._proxy_config.proxy_url_for(prefix):
            raise _SeenError(None)
        pool = session._manager.connection_from_url(prefix)
        session._setup_ssl_cert(pool, prefix, session._verify)
        host = request_signer.get_auth_instance(*signed_by).headers_to_sign(request)["host"]
        headers = {"Host": host, "User-Agent": request.headers["User-Agent"]}
        raise _SeenError(_Address(prefix, headers, pool, request_signer, signed_by))


class _SeenError(Exception):
    """Ends a request before it is sent."""

    def __init__(self, place: _Address | None) -> None:
        super().__init__()
        self.place = place
