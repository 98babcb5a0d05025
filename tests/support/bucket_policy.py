"""Strict bucket policy that tests enforce on runs: it refuses and lists every request that no run should need.

When a run puts its plan, the target and the documents beside the target become writable, and the source read-only. A
run may put objects only into writable places, and not over objects of other clients; it may delete only objects that a
run has put. A test may declare further places, where everything is allowed. Everybody may read. Clients with the mark
`SOMEBODY_ELSE` in their user agent, and clients other than boto3, such as Flink's, may do anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, unquote

SOMEBODY_ELSE = "somebody-else"
"""Mark in the user agent of clients that prepare or damage the files of a run."""

PLACES = "/-/places"
"""Path where tests declare a place by putting its URI."""

_OUR_AGENT = "Boto3/"
_DENIED = b"<Error><Code>AccessDenied</Code><Message>the policy of the tests</Message></Error>"
_PLAN = re.compile(r"(.+)\.rescale/(?:plan-[0-9a-f]{64}|prepared)\.json")


@dataclass(frozen=True)
class S3Request:
    """The parts of a request that a policy examines; `path` is unquoted and has no query, `body` reads the body."""

    method: str
    path: str
    query: str
    agent: str
    body: Callable[[], bytes]
    is_conditional: bool = False

    @property
    def place(self) -> str:
        """Bucket and key of the object."""
        return self.path.strip("/")

    @property
    def parameters(self) -> dict[str, list[str]]:
        return parse_qs(self.query, keep_blank_values=True)

    def __str__(self) -> str:
        return f"{self.method} {self.path}{'?' if self.query else ''}{self.query}"


@dataclass
class BucketPolicy:
    """Policy for all buckets of a server; each refused request is a line in the file `refusals`. Thread-safe."""

    refusals: Path
    _declared: set[str] = field(default_factory=set)
    _writable: set[str] = field(default_factory=set)
    _read_only: set[str] = field(default_factory=set)
    _put_by_us: dict[str, bool] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def declare(self, uri: str) -> None:
        """Allow everything in a place that no plan names."""
        with self._lock:
            self._declared.add(uri.removeprefix("s3://"))

    def allows(self, request: S3Request) -> bool:
        """Return whether a request is allowed; if so, record its changes."""
        if request.method in ("GET", "HEAD") or not request.place:  # requests without a bucket are for other services
            return True
        with self._lock:
            is_ours = _OUR_AGENT in request.agent and SOMEBODY_ELSE not in request.agent
            if is_ours and not self._is_allowed_to_us(request):
                with self.refusals.open("a") as refused:
                    refused.write(f"{request}\n")
                return False
            if request.method in ("PUT", "POST") and "/" in request.place:
                if request.is_conditional:
                    self._put_by_us.setdefault(request.place, is_ours)
                else:
                    self._put_by_us[request.place] = is_ours
        return True

    def _is_allowed_to_us(self, request: S3Request) -> bool:
        if _lies_in(request.place, self._declared):
            return True
        if request.method == "PUT" and (match := _PLAN.fullmatch(request.place)) is not None:
            self._read_plan(request.body(), target=match[1])
        if not _lies_in(request.place, self._writable) or _lies_in(request.place, self._read_only):
            return False
        is_abort = "uploadId" in request.parameters
        if request.method == "DELETE" and not is_abort:
            return self._put_by_us.get(request.place, False)
        return request.is_conditional or self._put_by_us.get(request.place, True)

    def _read_plan(self, body: bytes, target: str) -> None:
        plan = json.loads(body)
        if plan["target"] == f"s3://{target}":
            self._writable |= {target, f"{target}.rescale"}
            self._read_only.add(plan["source"].removeprefix("s3://"))


def _lies_in(place: str, places: Iterable[str]) -> bool:
    return any(place.startswith(f"{allowed}/") for allowed in places)


@dataclass
class PolicedApplication:
    """A WSGI application of S3 behind a policy."""

    application: Any
    policy: BucketPolicy

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = S3Request(
            environ["REQUEST_METHOD"],
            unquote(environ["RAW_URI"].partition("?")[0]),
            environ["QUERY_STRING"],
            environ.get("HTTP_USER_AGENT", ""),
            lambda: _body(environ),
            "HTTP_IF_NONE_MATCH" in environ,
        )
        if request.path == PLACES:
            self.policy.declare(request.body().decode())
            start_response("204 No Content", [])
            return []
        if self.policy.allows(request):
            answer: Iterable[bytes] = self.application(environ, start_response)
            return answer
        request.body()  # otherwise the next request on this connection would begin with the unread body
        start_response("403 Forbidden", [("Content-Type", "application/xml"), ("Content-Length", str(len(_DENIED)))])
        return [_DENIED]


def _body(environ: dict[str, Any]) -> bytes:
    """Return the whole body, and let the application read it again."""
    stream = environ["wsgi.input"]
    if not isinstance(stream, BytesIO):
        stream = environ["wsgi.input"] = BytesIO(stream.read(int(environ.get("CONTENT_LENGTH") or 0)))
    stream.seek(0)
    data = stream.read()
    stream.seek(0)
    return data
