"""Mishaps of requests on their way, chosen by a seed.

A mishap depends on the request and on how often it was made, but not on the order in which threads make requests. Most
mishaps happen once; a stubborn mishap happens to every try of boto3, and ends a run.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from enum import StrEnum
from random import Random

from support.wire import CARRIED_OUT, Treatment, WireRequest

_STUBBORN = 0.02
_BOTO3_TRIES = 8
_UPLOAD_ID = re.compile(r"(?<=uploadId=)[^&]*", re.IGNORECASE)


class Mishap(StrEnum):
    """A mishap, with its name in the report of a long run."""

    ERROR_BEFORE = "500 before the request was carried out"
    ERROR_AFTER = "500 after it was carried out"
    SLOW_DOWN = "503 SlowDown"
    RESET_BEFORE = "connection reset before the request was carried out"
    RESET_AFTER = "connection reset after it was carried out"
    SHORT_BODY = "a body that breaks off"
    STALL = "an answer that takes long"
    ERROR_IN_200 = "200 with an error document, nothing completed or copied"
    ERROR_IN_200_AFTER = "200 with an error document, the upload completed or the copy made"


_EVERYWHERE = (
    Mishap.ERROR_BEFORE,
    Mishap.ERROR_AFTER,
    Mishap.SLOW_DOWN,
    Mishap.RESET_BEFORE,
    Mishap.RESET_AFTER,
    Mishap.STALL,
)
_OF_LONG_WORK = (Mishap.ERROR_IN_200, Mishap.ERROR_IN_200_AFTER)
"""Mishaps of requests that the store begins to answer before it has carried them out."""


class Mishaps:
    """Draws mishaps: `rate` is their probability at each request, and `stall` the seconds of a stall. Thread-safe.

    `copies` is the number of mishaps of CopyObject and UploadPartCopy.
    """

    def __init__(self, seed: int, rate: float, stall: float) -> None:
        self.happened: Counter[Mishap] = Counter()
        self.copies = 0
        self.requests = 0
        self._seed, self._rate = seed, rate
        self._treatments = _treatments(stall)
        self._lock = threading.Lock()
        self._times_made: Counter[str] = Counter()
        self._stubborn: dict[str, tuple[Mishap, int]] = {}

    def decide(self, request: WireRequest) -> Treatment:
        name = f"{request.method} {_UPLOAD_ID.sub('', request.path)} {request.headers['Range'] or ''}"
        with self._lock:
            self.requests += 1
            self._times_made[name] += 1
            mishap = self._draw(name, request)
            if mishap is None:
                return CARRIED_OUT
            self.happened[mishap] += 1
            self.copies += _is_copy(request)
        return self._treatments[mishap]

    def _draw(self, name: str, request: WireRequest) -> Mishap | None:
        mishap, tries_left = self._stubborn.pop(name, (None, 0))
        if mishap is not None:
            if tries_left > 1:
                self._stubborn[name] = mishap, tries_left - 1
            return mishap
        random = Random(f"{self._seed} {self._times_made[name]} {name}")
        if random.random() >= self._rate:
            return None
        mishap = random.choice(_possible_mishaps(request))
        if mishap is not Mishap.STALL and random.random() < _STUBBORN:
            self._stubborn[name] = mishap, _BOTO3_TRIES - 1
        return mishap


def _possible_mishaps(request: WireRequest) -> tuple[Mishap, ...]:
    if request.method == "GET":
        return (*_EVERYWHERE, Mishap.SHORT_BODY, Mishap.SHORT_BODY)
    completes = request.method == "POST" and "uploadId=" in request.path
    return (*_EVERYWHERE, *2 * _OF_LONG_WORK) if completes or _is_copy(request) else _EVERYWHERE


def _is_copy(request: WireRequest) -> bool:
    """Return whether the request is CopyObject or UploadPartCopy."""
    return "x-amz-copy-source" in request.headers


def _treatments(stall: float) -> dict[Mishap, Treatment]:
    failed, slow_down = (500, "InternalError"), (503, "SlowDown")
    return {
        Mishap.ERROR_BEFORE: Treatment(carried_out=False, instead=failed),
        Mishap.ERROR_AFTER: Treatment(instead=failed),
        Mishap.SLOW_DOWN: Treatment(carried_out=False, instead=slow_down),
        Mishap.RESET_BEFORE: Treatment(carried_out=False, reset=True),
        Mishap.RESET_AFTER: Treatment(reset=True),
        Mishap.SHORT_BODY: Treatment(cut=True),
        Mishap.STALL: Treatment(pause=stall),
        Mishap.ERROR_IN_200: Treatment(carried_out=False, instead=(200, "InternalError")),
        Mishap.ERROR_IN_200_AFTER: Treatment(instead=(200, "InternalError")),
    }
