"""How many requests this process has sent to S3, by what they ask for, and how often boto3 had to ask again.

Beside them the bytes that the store has copied because it was asked to, which did not pass this process.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any


class Requests:
    """Counts from the start of the process on; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent: Counter[str] = Counter()
        self._asked = 0
        self._copied = 0

    def count(self, client: Any) -> None:
        """From now on counts what a client of boto3 sends."""
        client.meta.events.register("before-call.s3", self._ask)
        client.meta.events.register("before-send.s3", self._send)

    @property
    def by_kind(self) -> Counter[str]:
        """Requests sent, such as `{"GetObject": 3}`, each try for itself."""
        with self._lock:
            return self._sent.copy()

    @property
    def tried_again(self) -> int:
        with self._lock:
            return self._sent.total() - self._asked

    @property
    def bytes_copied(self) -> int:
        with self._lock:
            return self._copied

    def copied(self, size: int) -> None:
        """The store has copied so many bytes."""
        with self._lock:
            self._copied += size

    def ask(self, times: int = 1) -> None:
        """Somebody asks for something, which may take several requests."""
        with self._lock:
            self._asked += times

    def _ask(self, **_: Any) -> None:
        self.ask()

    def send(self, kind: str) -> None:
        """A request is sent, such as `GetObject`."""
        with self._lock:
            self._sent[kind] += 1

    def _send(self, event_name: str, **_: Any) -> None:
        self.send(event_name.rpartition(".")[2])


REQUESTS = Requests()
"""Those of this process."""
