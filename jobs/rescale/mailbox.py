"""Orders for a process on another machine, as documents in a directory that sender and process can reach.

The sender puts an order, and the process puts the result document. As long as the sender runs, it puts a sign of life
every half minute. After five minutes without a sign of life the process ends: its sender must have ended, and a new
sender starts a process of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Self
from uuid import uuid4

import msgspec

from rescale.lasting_process import Order
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.runstate.documents import put_document, read_document
from rescale.runstate.places import orders_place, places_of
from rescale.storage.locations import join
from rescale.storage.store import exists, open_store
from rescale.text.errors import RescaleError

_POLL_SECONDS = 0.25
_SECONDS_BETWEEN_SIGNS = 30.0
_PATIENCE_SECONDS = 300.0
"""Seconds without a sign of life after which the process ends."""


class Sender:
    """Sender of orders, which it puts into `place`, a new directory beside `target` that is removed after the block."""

    def __init__(self, target: str) -> None:
        self.place = join(orders_place(target), uuid4().hex)
        self._order_number = 0
        self._ended = threading.Event()
        self._sign_thread = threading.Thread(target=self._send_signs, daemon=True)

    def __enter__(self) -> Self:
        self._sign_thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._sign_thread.join()
        store = open_store(self.place)
        store.delete([entry.uri for entry in store.list(self.place)])

    def send(self, plan: Plan, proof: Proof) -> str:
        """Put an order to move and validate the state of a claimed plan; return the URI for the result document."""
        self._order_number += 1
        result_uri = join(self.place, f"result-{self._order_number}.json")
        order = Order(places_of(plan).plan, proof, result_uri)
        put_document(_order_uri(self.place, self._order_number), msgspec.json.encode(order))
        return result_uri

    def _send_signs(self) -> None:
        sign = 0
        while not self._ended.is_set():
            sign += 1
            # A lost sign of life does no harm: the next one comes long before the process gives up.
            with suppress(RescaleError):
                put_document(_sign_uri(self.place), str(sign).encode())
            self._ended.wait(_SECONDS_BETWEEN_SIGNS)


def orders_at(place: str) -> Iterator[Order]:
    """Yield the orders in a directory, in turn, until there is no sign of life for `_PATIENCE_SECONDS`."""
    order_number, sign, last_look_time, last_sign_time = 1, b"", 0.0, time.monotonic()
    while True:
        uri = _order_uri(place, order_number)
        if exists(uri):
            yield msgspec.json.decode(read_document(uri), type=Order)
            order_number, last_sign_time = order_number + 1, time.monotonic()
            continue
        if time.monotonic() > last_look_time + _SECONDS_BETWEEN_SIGNS:
            last_look_time = time.monotonic()
            newest_sign = read_document(_sign_uri(place)) if exists(_sign_uri(place)) else b""
            if newest_sign != sign:
                sign, last_sign_time = newest_sign, last_look_time
        if time.monotonic() > last_sign_time + _PATIENCE_SECONDS:
            return
        time.sleep(_POLL_SECONDS)


def _order_uri(place: str, number: int) -> str:
    return join(place, f"order-{number}.json")


def _sign_uri(place: str) -> str:
    return join(place, "sign-of-life")
