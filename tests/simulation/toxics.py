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

_LONGEST_STORM = 60
"""Highest number of requests that fail in a row; botocore repeats each for a quarter of a minute."""

_NEAR = 3
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
    _storm: int = 0
    _flips: set[tuple[bytes, bytes]] = field(default_factory=set)
    """Bytes around a bit that was flipped on the way, before and after the flip."""

    def end(self) -> None:
        self.rates, self.deletes_are_denied, self._storm = {}, False, 0

    def storms(self, what: str) -> bool:
        if not self._storm and Toxic.STORM in self.rates and self.happens(Toxic.STORM, what):
            self._storm = self.random.randint(2, _LONGEST_STORM)
        self._storm = max(0, self._storm - 1)
        return self._storm > 0

    def denies(self, what: str) -> bool:
        """Return whether the request is denied, as by a bucket policy or an object lock."""
        if self.deletes_are_denied:
            self.event_counts["delete refused"] += 1
            self.log.append(f"delete refused: {what}")
        return self.deletes_are_denied

    def happens(self, toxic: Toxic, what: str) -> bool:
        if self.random.random() >= self.rates.get(toxic, 0):
            return False
        self.event_counts[toxic] += 1
        self.log.append(f"{toxic}: {what}")
        return True

    def flipped_on_the_way(self, data: bytes) -> bytes:
        """Return the data with one flipped bit, which repeats or undoes no earlier flip.

        No run can notice bytes that are misread twice in the same way, or whose second flip undoes the first.
        """
        at, bit = self.random.randrange(len(data)), self.random.randrange(8)
        near = slice(max(0, at - _NEAR), at + _NEAR + 1)
        for next_bit in range(bit, bit + 8):
            spoilt = _with_flipped_bit(data, at, next_bit % 8)
            if not {(data[near], spoilt[near]), (spoilt[near], data[near])} & self._flips:
                break
        self._flips.add((data[near], spoilt[near]))
        return spoilt


class Client:
    """Stand-in for boto3's client in `S3Store`."""

    def __init__(self, bucket: Bucket, toxics: Toxics, after: Callable[[], None] | None) -> None:
        """Create a client; `after` is called after each request that was carried out."""
        self._bucket = bucket
        self._after = after
        self.toxics = toxics

    def __getattr__(self, request: str) -> Callable[..., Any]:
        """Return the method of a kind of request, once for each kind."""
        carry_out = getattr(self._bucket, request)

        def ask(**arguments: Any) -> Any:
            return self._request(request, carry_out, arguments)

        setattr(self, request, ask)
        return ask

    def get_paginator(self, request: str) -> Pages:
        return Pages(getattr(self, request))

    def _request(self, request: str, carry_out: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        if arguments["Bucket"] != BUCKET:
            raise refusal(request, 404, "NoSuchBucket")
        where = f"{request} {arguments['Key'] if 'Key' in arguments else arguments.get('Prefix', '')}"
        process = this_process()
        if process is None:
            self._bucket.requester = ""
            return self._answered(request, carry_out, arguments, where)
        process.before_request(where)
        if process.is_lost and process.has_misread and request in _WRITES and self._bucket.is_certified:
            process.end_here()  # no promise covers a lost process that has misread: it never reads its writes back
        self._bucket.requester = process.name
        answer = self._answered(request, carry_out, arguments, f"{process.name}: {where}")
        process.after_request()
        return answer

    def _answered(self, request: str, carry_out: Callable[..., Any], arguments: dict[str, Any], where: str) -> Any:
        toxics = self.toxics
        if request == "delete_object" and toxics.denies(where):
            raise refusal(request, 403, "AccessDenied")
        if not toxics.rates:
            return self._carried_out(carry_out, arguments)
        if toxics.storms(where):
            raise refusal(request, 503, "SlowDown")
        may_break = request in _SLOW_WRITES and Toxic.ERROR_IN_ANSWER in toxics.rates
        if may_break and toxics.happens(Toxic.ERROR_IN_ANSWER, where):
            if toxics.random.random() < 0.5:
                self._carried_out(carry_out, arguments)
            raise refusal(request, 500, "InternalError")
        if toxics.happens(Toxic.ERROR, where):
            raise refusal(request, 503, "SlowDown") if toxics.random.random() < 0.5 else _connection_lost()
        is_write = request in _WRITES
        if is_write and toxics.happens(Toxic.LOST_ANSWER, where):
            self._carried_out(carry_out, arguments)
            raise _no_answer()
        if is_write and toxics.happens(Toxic.REPEATED, where):
            self._carried_out(carry_out, arguments)
        answer = self._carried_out(carry_out, arguments)
        if request == "get_object":
            return self._spoilt(answer, where)
        if request.startswith("list_"):
            return self._shortened(answer, where)
        return answer

    def _carried_out(self, carry_out: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        answer = carry_out(**arguments)
        if self._after is not None:
            self._after()
        return answer

    def _spoilt(self, answer: dict[str, Any], where: str) -> dict[str, Any]:
        data, random = answer["Body"].data, self.toxics.random
        if self.toxics.happens(Toxic.BROKEN_BODY, where):
            return {**answer, "Body": Body(data, breaks=True)}
        if data and Toxic.SHORT in self.toxics.rates and self.toxics.happens(Toxic.SHORT, where):
            data = data[: random.randrange(len(data))]
            return {**answer, "Body": Body(data), "ContentLength": len(data)}
        if data and self.toxics.happens(Toxic.FLIPPED, where):
            if (process := this_process()) is not None:
                process.has_misread = True
            return {**answer, "Body": Body(self.toxics.flipped_on_the_way(data))}
        if data and where.startswith("publish ") and self.toxics.happens(Toxic.MISREAD, where):
            return {**answer, "Body": Body(self.toxics.flipped_on_the_way(data))}
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

    paginate: Callable[..., Iterator[dict[str, Any]]]


def flipped(data: bytes, random: Random) -> bytes:
    """Return the data with one bit flipped."""
    return _with_flipped_bit(data, random.randrange(len(data)), random.randrange(8))


def _with_flipped_bit(data: bytes, at: int, bit: int) -> bytes:
    spoilt = bytearray(data)
    spoilt[at] ^= 1 << bit
    return bytes(spoilt)


def _connection_lost() -> Exception:
    return ConnectionClosedError(endpoint_url="s3")


def _no_answer() -> Exception:
    return ReadTimeoutError(endpoint_url="s3")
