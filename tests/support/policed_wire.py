"""A proxy that enforces a policy in front of a server that has no policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from support.bucket_policy import PLACES, BucketPolicy, S3Request
from support.s3 import S3Server
from support.wire import CARRIED_OUT, Asked, Treatment, wire_to


@contextmanager
def policed(server: S3Server, refusals: Path) -> Iterator[S3Server]:
    """Yield the server behind the policy; refused requests are lines in the file `refusals`."""
    policy = BucketPolicy(refusals)

    def decide(asked: Asked) -> Treatment:
        path, _, query = asked.path.partition("?")
        if path == PLACES:
            policy.declare(asked.body().decode())
            return Treatment(carried_out=False, instead=(200, "Declared"))
        agent = asked.headers["User-Agent"] or ""
        conditional = "If-None-Match" in asked.headers
        request = S3Request(asked.method, unquote(path), query, agent, asked.body, conditional)
        return CARRIED_OUT if policy.allows(request) else Treatment(carried_out=False, instead=(403, "AccessDenied"))

    with wire_to(server) as wire:
        wire.decide = decide
        yield S3Server(wire.endpoint, refusals)
