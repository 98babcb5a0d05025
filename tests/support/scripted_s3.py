"""HTTP server with scripted answers, which no S3 server gives on demand."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event

from support.http_servers import LocalServer, QuietHandler, serving


@dataclass(frozen=True)
class Answer:
    """Answer to one request; with `sent`, the server hangs up after that many bytes of `body`."""

    status: int
    body: bytes = b""
    etag: str = '"abc"'
    sent: int | None = None
    chunked: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


HANG_UP = Answer(0)
SILENCE = Answer(-1)
"""No answer while the test runs."""


@dataclass
class ScriptedServer:
    """Server that gives its answers in turn, then repeats the last.

    `requests` has the method of each request, and its headers If-Match and If-None-Match.
    """

    answers: list[Answer] = field(default_factory=list)
    requests: list[tuple[str, str | None, str | None]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    copy_conditions: list[str | None] = field(default_factory=list)
    headers: list[Message] = field(default_factory=list)
    ended: Event = field(default_factory=Event)

    listener: ThreadingHTTPServer | None = None

    @property
    def port(self) -> int:
        assert self.listener is not None
        return self.listener.server_port

    def over(self, context: ssl.SSLContext) -> None:
        """Use TLS from now on."""
        assert self.listener is not None
        self.listener.socket = context.wrap_socket(
            self.listener.socket, server_side=True, do_handshake_on_connect=False
        )

    def next_answer(self, request: BaseHTTPRequestHandler) -> Answer:
        self.requests.append((request.command, request.headers["If-Match"], request.headers["If-None-Match"]))
        self.paths.append(request.path)
        self.headers.append(request.headers)
        self.copy_conditions.append(request.headers["x-amz-copy-source-if-match"])
        return self.answers[min(len(self.requests), len(self.answers)) - 1]


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    """Serve scripted answers on a free port during the block."""
    script = ScriptedServer()

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            answer = script.next_answer(self)
            self.close_connection = answer is HANG_UP or answer.sent is not None
            if answer is SILENCE:
                script.ended.wait(60)
                self.close_connection = True
            if answer in (HANG_UP, SILENCE):
                return
            self.send_response(answer.status)
            if answer.chunked:
                self.send_header("Transfer-Encoding", "chunked")
            else:
                self.send_header("Content-Length", str(len(answer.body)))
            self.send_header("ETag", answer.etag)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body[: answer.sent])

    class Server(LocalServer):
        request_queue_size = 64
        """Queue for all connections of a test; refused ones would be retried only after one, three and seven
        seconds."""

    with serving(Server(Handler)) as http:
        script.listener = http
        yield script
        script.ended.set()
