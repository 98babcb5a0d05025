"""What goes wrong on the way to the bucket and back: drawn anew at each request, from the seed of the history.

botocore repeats requests, so what reaches `S3Store` as an error has outlived that; a request whose answer was lost may
have been repeated, and then the bucket has seen it twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

from simulation.bucket import BUCKET, Body, Bucket, refused
from simulation.processes import this_process

_WRITES = (
    "put_object",
    "delete_object",
    "create_multipart_upload",
    "upload_part",
    "upload_part_copy",
    "copy_object",
    "complete_multipart_upload",
    "abort_multipart_upload",
)


class Toxic(StrEnum):
    """What may happen to a request."""

    ERROR = "error before the call"
    LOST_ANSWER = "error after it was carried out"
    REPEATED = "carried out twice"
    BROKEN_BODY = "body breaks off"
    MISSED_NAME = "listing misses a name"
    FLIPPED = "bit flipped on the way"
    MISREAD = "bit flipped on the way to publish"
    """All that publish reads is a document of our own, and right where it lies: so this passes."""


PASSING = (Toxic.ERROR, Toxic.LOST_ANSWER, Toxic.REPEATED, Toxic.BROKEN_BODY, Toxic.MISSED_NAME)
"""Those that one more try is a remedy for: none of them may end a run for good."""


@dataclass
class Toxics:
    """`rates` says how probable each is at a request that it can happen to; no rates, no toxics."""

    random: Random
    rates: Mapping[Toxic, float]
    injected: Counter[str]
    log: list[str]

    def happens(self, toxic: Toxic, what: str) -> bool:
        if self.random.random() >= self.rates.get(toxic, 0):
            return False
        self.injected[toxic] += 1
        self.log.append(f"{toxic}: {what}")
        return True


class Client:
    """What `S3Store` takes for boto3's client."""

    def __init__(self, bucket: Bucket, toxics: Toxics, after: Callable[[], None]) -> None:
        """`after` is told of each request that was carried out."""
        self._bucket = bucket
        self._after = after
        self.toxics = toxics

    def __getattr__(self, request: str) -> Callable[..., Any]:
        return lambda **arguments: self._request(request, arguments)

    def get_paginator(self, request: str) -> Pages:
        return Pages(lambda arguments: self._request(request, arguments))

    def _request(self, request: str, arguments: dict[str, Any]) -> Any:
        process = this_process()
        if arguments["Bucket"] != BUCKET:
            raise refused(request, 404, "NoSuchBucket")
        if process is not None:
            process.before_request()
        where = f"{request} {arguments.get('Key', arguments.get('Prefix', ''))}"
        self._bucket.by = process.name if process is not None else ""
        if process is not None:
            where = f"{process.name}: {where}"
        answer = self._answered(request, arguments, where)
        if process is not None:
            process.after_request()
        return answer

    def _answered(self, request: str, arguments: dict[str, Any], where: str) -> Any:
        toxics = self.toxics
        if not toxics.rates:
            return self._carried_out(request, arguments)
        if toxics.happens(Toxic.ERROR, where):
            raise refused(request, 503, "SlowDown") if toxics.random.random() < 0.5 else _connection_lost()
        is_write = request in _WRITES
        if is_write and toxics.happens(Toxic.LOST_ANSWER, where):
            self._carried_out(request, arguments)
            raise _no_answer()
        if is_write and toxics.happens(Toxic.REPEATED, where):
            self._carried_out(request, arguments)
        answer = self._carried_out(request, arguments)
        if request == "get_object":
            return self._spoilt(answer, where)
        if request.startswith("list_"):
            return self._shortened(answer, where)
        return answer

    def _carried_out(self, request: str, arguments: dict[str, Any]) -> Any:
        answer = getattr(self._bucket, request)(**arguments)
        self._after()
        return answer

    def _spoilt(self, answer: dict[str, Any], where: str) -> dict[str, Any]:
        data, random = answer["Body"].data, self.toxics.random
        if self.toxics.happens(Toxic.BROKEN_BODY, where):
            return {**answer, "Body": Body(data, breaks=True)}
        if data and self.toxics.happens(Toxic.FLIPPED, where):
            return {**answer, "Body": Body(flipped(data, random))}
        if data and where.startswith("publish ") and self.toxics.happens(Toxic.MISREAD, where):
            return {**answer, "Body": Body(flipped(data, random))}
        return answer

    def _shortened(self, pages: Iterator[dict[str, Any]], where: str) -> Iterator[dict[str, Any]]:
        listed = list(pages)
        full = [page for page in listed if page.get("Contents")]
        if full and self.toxics.happens(Toxic.MISSED_NAME, where):
            missing = self.toxics.random.choice(full)["Contents"]
            missing.pop(self.toxics.random.randrange(len(missing)))
        return iter(listed)


@dataclass(frozen=True)
class Pages:
    """A paginator of boto3's."""

    request: Callable[[dict[str, Any]], Iterator[dict[str, Any]]]

    def paginate(self, **arguments: Any) -> Iterator[dict[str, Any]]:
        return self.request(arguments)


def flipped(data: bytes, random: Random) -> bytes:
    """The same but for one bit."""
    spoilt = bytearray(data)
    spoilt[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(spoilt)


def _connection_lost() -> Exception:
    return ConnectionClosedError(endpoint_url="s3")


def _no_answer() -> Exception:
    return ReadTimeoutError(endpoint_url="s3")
