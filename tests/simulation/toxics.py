"""Faults on the way to the bucket and back, drawn anew at each request from the seed of the history.

An error reaches `S3Store` only after all attempts of botocore have failed. After a lost answer, botocore may repeat the
request, so the bucket carries it out twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any

from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

from simulation.bucket import BUCKET, Bucket, refusal
from simulation.processes import this_process
from simulation.stored import Body

_LONGEST_STORM_REQUESTS = 60
"""Highest number of requests that fail in a row; botocore repeats each for a quarter of a minute."""

_NEAR_BYTES = 3
"""Number of bytes on either side of a flipped bit by which the same flip is recognised later."""

_SLOW_WRITES = ("complete_multipart_upload", "copy_object", "upload_part_copy")
_WRITES = {
    "put_object",
    "delete_object",
    "create_multipart_upload",
    "upload_part",
    "upload_part_copy",
    "copy_object",
    "complete_multipart_upload",
    "abort_multipart_upload",
}


class Toxic(StrEnum):
    """Kind of fault of a request."""

    ERROR = "error before the call"
    LOST_ANSWER = "error after it was carried out"
    REPEATED = "carried out twice"
    BROKEN_BODY = "body breaks off"
    MISSED_NAME = "listing misses a name"
    FLIPPED = "bit flipped on the way"
    STORM = "all requests fail for a while"
    ERROR_IN_ANSWER = "error in an answer that began well"
    """S3 begins its answer while it still joins parts or copies; boto3 turns an error in the answer into status 500."""

    SHORT = "body ends early, and nothing says so"
    MISREAD = "bit flipped on the way to publish"
    """A transient fault: publish reads only Rescale's documents, which are right in the bucket."""


PASSING_TOXICS = (Toxic.ERROR, Toxic.LOST_ANSWER, Toxic.REPEATED, Toxic.BROKEN_BODY, Toxic.MISSED_NAME)
"""Faults that another try repairs: none of them may end a run for good."""


@dataclass
class Toxics:
    """Faults of a history; `rates` has the probability of each fault at a request that it can affect."""

    random: Random
    rates: Mapping[Toxic, float]
    event_counts: Counter[str]
    log: list[str]
    deletes_are_denied: bool = False
    _storm_requests_left: int = 0
    _flips: set[tuple[bytes, bytes]] = field(default_factory=set)
    """Bytes around a bit that was flipped on the way, before and after the flip."""

    def end(self) -> None:
        self.rates, self.deletes_are_denied, self._storm_requests_left = {}, False, 0

    def storms(self, request_line: str) -> bool:
        if not self._storm_requests_left and Toxic.STORM in self.rates and self.happens(Toxic.STORM, request_line):
            self._storm_requests_left = self.random.randint(2, _LONGEST_STORM_REQUESTS)
        self._storm_requests_left = max(0, self._storm_requests_left - 1)
        return self._storm_requests_left > 0

    def denies(self, request_line: str) -> bool:
        """Return whether the request is denied, as by a bucket policy or an object lock."""
        if self.deletes_are_denied:
            self.event_counts["delete refused"] += 1
            self.log.append(f"delete refused: {request_line}")
        return self.deletes_are_denied

    def happens(self, toxic: Toxic, request_line: str) -> bool:
        if self.random.random() >= self.rates.get(toxic, 0):
            return False
        self.event_counts[toxic] += 1
        self.log.append(f"{toxic}: {request_line}")
        return True

    def flipped_on_the_way(self, data: bytes) -> bytes:
        """Return the data with one flipped bit, which repeats or undoes no earlier flip.

        No run can notice bytes that are misread twice in the same way, or whose second flip undoes the first.
        """
        at, bit = self.random.randrange(len(data)), self.random.randrange(8)
        near = slice(max(0, at - _NEAR_BYTES), at + _NEAR_BYTES + 1)
        for next_bit in range(bit, bit + 8):
            flipped_data = _flip_bit(data, at, next_bit % 8)
            if not {(data[near], flipped_data[near]), (flipped_data[near], data[near])} & self._flips:
                break
        self._flips.add((data[near], flipped_data[near]))
        return flipped_data


class Client:
    """Stand-in for boto3's client in `S3Store`."""

    def __init__(self, bucket: Bucket, toxics: Toxics, after_request: Callable[[], None] | None) -> None:
        """Create a client; `after_request` is called after each request that was carried out."""
        self._bucket = bucket
        self._after_request = after_request
        self.toxics = toxics

    def __getattr__(self, request: str) -> Callable[..., Any]:
        """Return the method of a kind of request, once for each kind."""
        carry_out = getattr(self._bucket, request)

        def send(**arguments: Any) -> Any:
            return self._request(request, carry_out, arguments)

        setattr(self, request, send)
        return send

    def get_paginator(self, request: str) -> Pages:
        return Pages(getattr(self, request))

    def _request(self, request: str, carry_out: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        if arguments["Bucket"] != BUCKET:
            raise refusal(request, 404, "NoSuchBucket")
        request_line = f"{request} {arguments['Key'] if 'Key' in arguments else arguments.get('Prefix', '')}"
        process = this_process()
        if process is None:
            self._bucket.requester = ""
            return self._answer(request, carry_out, arguments, request_line)
        process.before_request(request_line)
        if process.is_lost and process.has_misread and request in _WRITES and self._bucket.is_certified:
            process.end_here()  # no promise covers a lost process that has misread: it never reads its writes back
        self._bucket.requester = process.name
        answer = self._answer(request, carry_out, arguments, f"{process.name}: {request_line}")
        process.after_request()
        return answer

    def _answer(self, request: str, carry_out: Callable[..., Any], arguments: dict[str, Any], request_line: str) -> Any:
        toxics = self.toxics
        if request == "delete_object" and toxics.denies(request_line):
            raise refusal(request, 403, "AccessDenied")
        if not toxics.rates:
            return self._carry_out(carry_out, arguments)
        if toxics.storms(request_line):
            raise refusal(request, 503, "SlowDown")
        may_break = request in _SLOW_WRITES and Toxic.ERROR_IN_ANSWER in toxics.rates
        if may_break and toxics.happens(Toxic.ERROR_IN_ANSWER, request_line):
            if toxics.random.random() < 0.5:
                self._carry_out(carry_out, arguments)
            raise refusal(request, 500, "InternalError")
        if toxics.happens(Toxic.ERROR, request_line):
            raise refusal(request, 503, "SlowDown") if toxics.random.random() < 0.5 else _connection_lost_error()
        is_write = request in _WRITES
        if is_write and toxics.happens(Toxic.LOST_ANSWER, request_line):
            self._carry_out(carry_out, arguments)
            raise _no_answer_error()
        if is_write and toxics.happens(Toxic.REPEATED, request_line):
            self._carry_out(carry_out, arguments)
        answer = self._carry_out(carry_out, arguments)
        if request == "get_object":
            return self._spoil_answer(answer, request_line)
        if request.startswith("list_"):
            return self._shorten_listing(answer, request_line)
        return answer

    def _carry_out(self, carry_out: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        answer = carry_out(**arguments)
        if self._after_request is not None:
            self._after_request()
        return answer

    def _spoil_answer(self, answer: dict[str, Any], request_line: str) -> dict[str, Any]:
        data, random = answer["Body"].data, self.toxics.random
        if self.toxics.happens(Toxic.BROKEN_BODY, request_line):
            return {**answer, "Body": Body(data, breaks=True)}
        if data and Toxic.SHORT in self.toxics.rates and self.toxics.happens(Toxic.SHORT, request_line):
            data = data[: random.randrange(len(data))]
            return {**answer, "Body": Body(data), "ContentLength": len(data)}
        if data and self.toxics.happens(Toxic.FLIPPED, request_line):
            if (process := this_process()) is not None:
                process.has_misread = True
            return {**answer, "Body": Body(self.toxics.flipped_on_the_way(data))}
        if data and request_line.startswith("publish ") and self.toxics.happens(Toxic.MISREAD, request_line):
            return {**answer, "Body": Body(self.toxics.flipped_on_the_way(data))}
        return answer

    def _shorten_listing(self, pages: Iterator[dict[str, Any]], request_line: str) -> Iterator[dict[str, Any]]:
        all_pages = list(pages)
        full_pages = [page for page in all_pages if page.get("Contents")]
        if full_pages and self.toxics.happens(Toxic.MISSED_NAME, request_line):
            entries = self.toxics.random.choice(full_pages)["Contents"]
            entries.pop(self.toxics.random.randrange(len(entries)))
        return iter(all_pages)


@dataclass(frozen=True)
class Pages:
    """A paginator of boto3's."""

    paginate: Callable[..., Iterator[dict[str, Any]]]


def with_random_flip(data: bytes, random: Random) -> bytes:
    """Return the data with one bit flipped."""
    return _flip_bit(data, random.randrange(len(data)), random.randrange(8))


def _flip_bit(data: bytes, at: int, bit: int) -> bytes:
    flipped_data = bytearray(data)
    flipped_data[at] ^= 1 << bit
    return bytes(flipped_data)


def _connection_lost_error() -> Exception:
    return ConnectionClosedError(endpoint_url="s3")


def _no_answer_error() -> Exception:
    return ReadTimeoutError(endpoint_url="s3")
