"""Keys of an AWS connection, for processes that have no Airflow: they ask the task that holds the connection.

The keys of a role are valid for an hour or so, and whoever knows how to get new ones is Airflow's hook, in the task. So
no key goes into the environment of a step: the task answers on the loopback as the agent of a container does, a
protocol that every AWS SDK speaks and asks again before keys expire (botocore's `ContainerProvider`).
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botocore.credentials import Credentials

_NEVER = "2999-01-01T00:00:00Z"
"""When keys expire that are not renewed."""


@contextmanager
def served(credentials: Credentials) -> Iterator[dict[str, str]]:
    """The variables by which processes on this machine find the keys, for as long as the block runs."""
    token = secrets.token_urlsafe()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(credentials, token))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    try:
        yield {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{server.server_port}/",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": token,
        }
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(credentials: Credentials, token: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not secrets.compare_digest(self.headers.get("Authorization", "").encode(), token.encode()):
                self._answer(HTTPStatus.FORBIDDEN, {"message": "not for you"})
                return
            try:
                self._answer(HTTPStatus.OK, _document(credentials))
            except Exception as error:  # whatever a hook may raise: who asks is told, and asks again
                self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, {"message": str(error)})

        def _answer(self, status: HTTPStatus, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing: questions for keys belong into no log."""

    return Handler


def _document(credentials: Credentials) -> dict[str, str]:
    """The keys as they are now, renewed if that is due."""
    keys = credentials.get_frozen_credentials()
    expires = getattr(credentials, "_expiry_time", None)  # of those that are renewed; botocore tells it nowhere else
    return {
        "AccessKeyId": keys.access_key or "",
        "SecretAccessKey": keys.secret_key or "",
        "Token": keys.token or "",
        "Expiration": _NEVER if expires is None else expires.isoformat(),
    }
