"""Damaged, misread or half published results, for tests of publishing and discarding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from rescale.plan.plan import Plan
from rescale.runstate.publication import publish
from rescale.storage.locations import name
from rescale.storage.store import open_store
from support import snapshots

SOURCE = snapshots.directory("2-finished")


def delete(uri: str) -> None:
    open_store(uri).delete([uri])


def cut(uri: str) -> None:
    store = open_store(uri)
    store.put(uri, store.read_all(uri, 1 << 20)[0][:-1])


def flip(uri: str) -> None:
    store = open_store(uri)
    data = bytearray(store.read_all(uri, 1 << 20)[0])
    data[-1] ^= 1
    store.put(uri, bytes(data))


DAMAGES = pytest.mark.parametrize("damage", [delete, cut, flip])
Damage = Callable[[str], None]


def files(plan: Plan) -> list[str]:
    return [entry.uri for entry in open_store(plan.target).list(plan.target) if name(entry.uri) != "_metadata"]


@dataclass
class Misreading:
    """Flip of a bit in the document at `uri`: at the first read, or at every read if `for_ever`."""

    uri: str
    for_ever: bool = False
    reads: int = 0

    def install(self, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
        store = type(open_store(plan.target))
        read_all = store.read_all

        def misread(self_: Any, uri: str, *rest: Any) -> tuple[bytes, Any]:
            data, pin = read_all(self_, uri, *rest)
            if uri != self.uri:
                return data, pin
            self.reads += 1
            is_misread = self.for_ever or self.reads == 1
            return (data[:20] + bytes([data[20] ^ 0x80]) + data[21:] if is_misread else data), pin

        monkeypatch.setattr(store, "read_all", misread)


class Killed(BaseException):
    """Exception that no code of Rescale catches."""


def kill_at(
    place: str,
    plan: Plan,
    monkeypatch: pytest.MonkeyPatch,
    *,
    after: bool = False,
    work: Callable[[Plan], object] = publish,
) -> None:
    """Publish, or do other `work`, and raise `Killed` before or `after` the put of the URI `place`."""
    store = open_store(plan.target)

    def killing(put: Callable[[str, bytes], object]) -> Callable[[str, bytes], object]:
        def putting(uri: str, data: bytes) -> object:
            if uri == place and not after:
                raise Killed
            done = put(uri, data)
            if uri == place:
                raise Killed
            return done

        return putting

    with monkeypatch.context() as patched:
        patched.setattr(store, "put", killing(store.put))
        patched.setattr(store, "put_if_absent", killing(store.put_if_absent))
        with pytest.raises(Killed):
            work(plan)
