"""A proxy that enforces the bucket policy in front of an S3 server without a policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from support.bucket_policy import PLACES, BucketPolicy, S3Request
from support.s3 import S3Server
from support.wire import CARRIED_OUT, Treatment, WireRequest, wire_to


@contextmanager
def policed(server: S3Server, refusals: Path) -> Iterator[S3Server]:
    """Yield the server behind the policy; refused requests are lines in the file `refusals`."""
    policy = BucketPolicy(refusals)

    def decide(wire_request: WireRequest) -> Treatment:
        path, _, query = wire_request.path.partition("?")
        if path == PLACES:
            policy.declare(wire_request.body().decode())
            return Treatment(carried_out=False, instead=(200, "Declared"))
        agent = wire_request.headers["User-Agent"] or ""
        conditional = "If-None-Match" in wire_request.headers
        request = S3Request(wire_request.method, unquote(path), query, agent, wire_request.body, conditional)
        return CARRIED_OUT if policy.allows(request) else Treatment(carried_out=False, instead=(403, "AccessDenied"))

    with wire_to(server) as wire:
        wire.decide = decide
        yield S3Server(wire.endpoint, refusals)
