"""Serves the keys of an AWS connection to the processes of a task, which have no access to Airflow.

The keys of a role are valid for about an hour, and only Airflow's hook, in the task, can renew them. So no key goes
into the environment of a step. The task serves them on the loopback, by the protocol of a container's agent: every AWS
SDK supports it, and requests new keys before the old ones expire (botocore's `ContainerProvider`).
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

_FAR_FUTURE = "2999-01-01T00:00:00Z"
"""Expiration of keys that are never renewed."""


@contextmanager
def serve_credentials(credentials: Credentials) -> Iterator[dict[str, str]]:
    """Serve the keys during the block; yield the environment variables by which local processes find the keys."""
    token = secrets.token_urlsafe()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_class(credentials, token))
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


def _handler_class(credentials: Credentials, token: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not secrets.compare_digest(self.headers.get("Authorization", "").encode(), token.encode()):
                self._answer(HTTPStatus.FORBIDDEN, {"message": "wrong token"})
                return
            try:
                self._answer(HTTPStatus.OK, _current_keys(credentials))
            except Exception as error:  # a hook may raise any exception; the client reports it and asks again
                self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, {"message": str(error)})

        def _answer(self, status: HTTPStatus, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log nothing: requests for keys do not belong in a log."""

    return Handler


def _current_keys(credentials: Credentials) -> dict[str, str]:
    keys = credentials.get_frozen_credentials()
    expiry_time = getattr(credentials, "_expiry_time", None)  # a private attribute, which only renewable keys have
    return {
        "AccessKeyId": keys.access_key or "",
        "SecretAccessKey": keys.secret_key or "",
        "Token": keys.token or "",
        "Expiration": _FAR_FUTURE if expiry_time is None else expiry_time.isoformat(),
    }
