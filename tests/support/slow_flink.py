"""Flink's REST API as it answers while a job's savepoint is taken, for as long as it is told to.

A real Flink is done with the small states of tests before anybody has lost patience.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JOB = "clicks"
_ID = "0123456789abcdef" * 2
_UNKNOWN = {"errors": ["Not found"]}


class SlowFlink(ThreadingHTTPServer):
    """Flink with a running job. A savepoint that was begun is complete once `savepoint` has its place."""

    savepoint: str | None = None
    begun = False

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, path: str) -> dict[str, Any] | None:
        if path.startswith(f"/jobs/{_ID}/savepoints/"):
            operation = None if self.savepoint is None else {"location": self.savepoint}
            return {"operation": operation} if self.begun else None
        source = {"id": _ID, "name": "Source", "parallelism": 4, "maxParallelism": 128, "tasks": {"RUNNING": 4}}
        return {
            "/jobs/overview": {"jobs": [{"jid": _ID, "name": JOB, "state": "RUNNING"}]},
            f"/jobs/{_ID}": {"jid": _ID, "name": JOB, "state": "RUNNING", "vertices": [source]},
            f"/jobs/{_ID}/config": {"execution-config": {"job-parallelism": 4}},
        }.get(path)


class _Handler(BaseHTTPRequestHandler):
    server: SlowFlink

    def do_GET(self) -> None:
        self._tell(self.server.answer(self.path))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.begun = True
        self._tell({"request-id": "as it was asked for"})

    def _tell(self, document: dict[str, Any] | None) -> None:
        self.send_response(404 if document is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(_UNKNOWN if document is None else document).encode())

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def slow_flink() -> Iterator[SlowFlink]:
    with SlowFlink(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.1,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
