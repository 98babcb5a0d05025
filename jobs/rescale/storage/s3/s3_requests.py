"""Counters of requests that this process has sent to S3, of repeated requests, and of bytes that the store copied."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any


class RequestCounters:
    """Counters since the start of the process; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent_by_operation: Counter[str] = Counter()
        self._calls = 0
        self._copied_bytes = 0

    def count_requests_of(self, client: Any) -> None:
        """Count the requests that a client of boto3 sends from now on."""
        client.meta.events.register("before-call.s3", self._before_call)
        client.meta.events.register("before-send.s3", self._before_send)

    @property
    def by_operation(self) -> Counter[str]:
        """Requests sent by operation, such as `{"GetObject": 3}`; every attempt counts."""
        with self._lock:
            return self._sent_by_operation.copy()

    @property
    def repeat_count(self) -> int:
        with self._lock:
            return self._sent_by_operation.total() - self._calls

    @property
    def bytes_copied(self) -> int:
        """Bytes that the store copied itself."""
        with self._lock:
            return self._copied_bytes

    def count_copied_bytes(self, size: int) -> None:
        with self._lock:
            self._copied_bytes += size

    def count_calls(self, call_count: int = 1) -> None:
        """Count `call_count` calls of boto3. A call sends one request, or several if it has to repeat the request."""
        with self._lock:
            self._calls += call_count

    def _before_call(self, **_: Any) -> None:
        self.count_calls()

    def count_request(self, operation: str) -> None:
        """Count a request that is sent, by its operation, such as `GetObject`."""
        with self._lock:
            self._sent_by_operation[operation] += 1

    def _before_send(self, event_name: str, **_: Any) -> None:
        self.count_request(event_name.rpartition(".")[2])


REQUESTS = RequestCounters()
"""The counters of this process."""
