"""Orders through the store: a process elsewhere carries them out in turn, and ends when its sender is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from rescale import mailbox
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.mailbox import Sender, orders_at
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.process import read_result
from rescale.runstate.documents import put_document, read_document
from rescale.runstate.places import orders_place
from rescale.runstate.publication import publish
from rescale.runstate.step import Step
from rescale.storage.store import open_store
from rescale.text.errors import RequestError, RescaleError, StoreError
from support import snapshots
from support.airflow_server import wait_for
from support.pipeline import claimed_plan, plan_rescale

SOURCE = snapshots.directory("2-clicks")


def claimed(target: Path) -> Plan:
    return claimed_plan(SOURCE, str(target), ["3"], max_parallelism=["1000"])


def await_result(uri: str) -> None:
    """Wait for a result document, and raise its error if it has one."""
    wait_for(lambda: open_store(uri).stat(uri), uri, 300)
    read_result(uri)


class SlowPolls:
    """Clock of a reader: between two polls, nearly the reader's time limit passes.

    Before each poll, the sender has given a sign of life. Poll number `polls` calls `end_sender`, after which there are
    no more signs.
    """

    def __init__(self, place: str, polls: int, end_sender: Callable[[], None]) -> None:
        self.polls, self._last = 0, polls
        self._uri, self._end_sender = mailbox._sign_uri(place), end_sender
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, _: float) -> None:
        self.polls += 1
        if self.polls < self._last:
            before = self._sign()
            wait_for(lambda: self._sign() != before, "a sign of life", 300, period=0.01)
        elif self.polls == self._last:
            self._end_sender()
        self._now += 0.9 * mailbox._PATIENCE_SECONDS

    def _sign(self) -> bytes:
        return b"" if open_store(self._uri).stat(self._uri) is None else read_document(self._uri)


def test_a_process_elsewhere_carries_out_orders_and_an_error_ends_its_run_alone(tmp_path: Path) -> None:
    plan = claimed(tmp_path / "target")
    unclaimed = plan_rescale(SOURCE, str(tmp_path / "nobodys"), ["3"])
    with Sender(plan.target) as sender:
        command = [sys.executable, "-m", Step.ROUNDS.value, "--orders-at", sender.place, "--master", "local[2]"]
        with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}) as process:
            try:
                with pytest.raises(RescaleError):
                    await_result(sender.send(unclaimed, Proof.RECORDS))
                await_result(sender.send(plan, Proof.RECORDS))
            finally:
                process.terminate()
    publish(plan)
    validate_published(SOURCE, plan.target, InProcessTasks())
    assert not open_store(plan.target).list(orders_place(plan.target)), "the sender removes what it put"


def test_sign_of_life_that_is_refused_is_not_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials may expire before they are renewed."""
    errors: list[RescaleError] = [RequestError("the credentials have expired"), StoreError("the store is busy")]

    def put_unless_refused(uri: str, data: bytes) -> None:
        if errors:
            raise errors.pop()
        put_document(uri, data)

    monkeypatch.setattr(mailbox, "_SECONDS_BETWEEN_SIGNS", 0.01)
    monkeypatch.setattr(mailbox, "put_document", put_unless_refused)
    with Sender(str(tmp_path / "target")) as sender:
        sign = mailbox._sign_uri(sender.place)
        wait_for(lambda: open_store(sign).stat(sign), "a sign of life", 10, period=0.01)


def test_orders_end_when_the_sender_gives_no_sign_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "_SECONDS_BETWEEN_SIGNS", 0.01)
    plan = claimed(tmp_path / "target")
    with ExitStack() as stack:
        sender = stack.enter_context(Sender(plan.target))
        results = [sender.send(plan, proof) for proof in (Proof.RECORDS, Proof.CHANGES)]
        clock = SlowPolls(sender.place, 10, stack.close)
        monkeypatch.setattr(mailbox, "time", clock)
        received = list(orders_at(sender.place))
    assert 10 < clock.polls < 15, "it goes on as long as the sender lives"
    assert [(order.proof, order.result) for order in received] == [
        (Proof.RECORDS, results[0]),
        (Proof.CHANGES, results[1]),
    ]
