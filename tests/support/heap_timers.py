"""Key groups of raw keyed timers, one timer at a time, as `InternalTimerServiceSerializationProxy` writes them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from support.snapshot_bytes import i32, utf

HEAD = bytes.fromhex("f1cd859f") + i32(2)


class Timer(NamedTuple):
    time: int
    key: bytes
    namespace: bytes


class Service(NamedTuple):
    """A timer service; `key` and `namespace` are serializer snapshots."""

    name: str
    key: bytes
    namespace: bytes
    events: Sequence[Timer] = ()
    processing: Sequence[Timer] = ()


def write_block(*services: Service) -> bytes:
    out = HEAD + i32(len(services))
    for service in services:
        out += utf(service.name) + service.key + service.namespace
        for timers in (service.events, service.processing):
            out += i32(len(timers))
            out += b"".join(key + namespace + struct.pack(">q", time) for time, key, namespace in timers)
    return out
