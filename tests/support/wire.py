"""HTTP proxy between boto3 and an S3 server, where a test decides what happens to each request.

Sockets, HTTP and the behaviour of boto3 are real.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from support.http_servers import LocalServer, QuietHandler, serving
from support.s3 import S3Server

_SERVER_SECONDS = 120
_HOP_HEADERS = ("connection", "transfer-encoding", "content-length", "date", "server")
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)
_ERROR = "<?xml version='1.0' encoding='UTF-8'?><Error><Code>{}</Code><Message>{}</Message></Error>"


@dataclass(frozen=True)
class WireRequest:
    """Parts of a request on which a test decides; `path` includes the query, `body` reads the body."""

    method: str
    path: str
    headers: Any
    body: Callable[[], bytes]


@dataclass(frozen=True)
class Treatment:
    """Treatment of a request, which first waits for `pause` seconds; the server gets it only if `carried_out`.

    The client gets the error `instead`, if set: a status and an S3 error code, with `message`. With `cut`, it gets only
    half of the body; with `reset`, its connection is reset.
    """

    carried_out: bool = True
    instead: tuple[int, str] | None = None
    message: str = "planted"
    cut: bool = False
    reset: bool = False
    pause: float = 0


CARRIED_OUT = Treatment()
Decide = Callable[[WireRequest], Treatment]


@dataclass
class Wire:
    """Proxy that processes use instead of the server; tests replace `decide` while the proxy runs."""

    upstream: S3Server
    port: int
    decide: Decide = field(default=lambda _: CARRIED_OUT)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return S3Server(self.endpoint).environment


@contextmanager
def wire_to(upstream: S3Server) -> Iterator[Wire]:
    """Run a proxy during the block, which passes everything on until `decide` is replaced."""

    server_port = urlsplit(upstream.endpoint).port

    class Handler(_Handler):
        def decide(self, request: WireRequest) -> Treatment:
            return wire.decide(request)

        upstream = ("127.0.0.1", server_port or 80)

    with serving(_Server(Handler)) as http:
        wire = Wire(upstream, http.server_port)
        yield wire


class _Server(LocalServer):
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing about a client that was killed or hung up."""


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    upstream: tuple[str, int]

    def decide(self, request: WireRequest) -> Treatment:
        raise NotImplementedError

    def answer(self) -> None:
        body = cache(lambda: self.rfile.read(int(self.headers["Content-Length"] or 0)))
        treatment = self.decide(WireRequest(self.command, self.path, self.headers, body))
        time.sleep(treatment.pause)
        if treatment.reset and not treatment.carried_out:
            self._reset()
            return
        body()  # otherwise the next request on this connection would begin with the unread body
        if not treatment.carried_out and treatment.instead:
            self._refuse(*treatment.instead, treatment.message)
            return
        connection = HTTPConnection(*self.upstream, timeout=_SERVER_SECONDS)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in ("expect",)}
            connection.request(self.command, self.path, body(), headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, HTTPException):
            self._reset()
            return
        finally:
            connection.close()
        if treatment.reset:
            self._reset()
        elif treatment.instead:
            self._refuse(*treatment.instead, treatment.message)
        else:
            self._pass_back(answer, content, cut=treatment.cut)

    def _pass_back(self, answer: HTTPResponse, content: bytes, *, cut: bool) -> None:
        self.send_response_only(answer.status, answer.reason)
        size = str(len(content))
        for name, value in answer.getheaders():
            if name.lower() == "content-length" and self.command == "HEAD":
                size = value
            if name.lower() not in _HOP_HEADERS:
                self.send_header(name, value)
        self.send_header("Content-Length", size)
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(content[: len(content) // 2] if cut else content)
        self.close_connection = self.close_connection or cut

    def _refuse(self, status: int, code: str, message: str) -> None:
        document = _ERROR.format(code, message).encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(document)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(document)

    def _reset(self) -> None:
        """Hang up so that the client gets "connection reset by peer"."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
        self.close_connection = True
        self.connection.close()
