"""Orders through the store: a process elsewhere carries them out in turn, and ends when its sender is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rescale import mailbox
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import Loop
from rescale.lasting_process import Order
from rescale.mailbox import Sender, orders_at
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.process import read_result
from rescale.runstate.claim import claim
from rescale.runstate.places import orders_place
from rescale.runstate.publication import publish
from rescale.runstate.step import Step
from rescale.storage.store import open_store
from rescale.text.errors import RescaleError
from support import snapshots
from support.pipeline import plan_rescale

SOURCE = snapshots.directory("2-clicks")


def claimed(target: Path) -> Plan:
    plan = plan_rescale(SOURCE, str(target), ["3"], max_parallelism=["1000"])
    claim(plan)
    return plan


def result_of(uri: str) -> None:
    """Wait for a result document; raises its error."""
    until = time.monotonic() + 120
    while open_store(uri).stat(uri) is None:
        assert time.monotonic() < until
        time.sleep(0.1)
    read_result(uri)


def test_a_process_elsewhere_carries_out_orders_and_an_error_ends_its_run_alone(tmp_path: Path) -> None:
    plan = claimed(tmp_path / "target")
    unclaimed = plan_rescale(SOURCE, str(tmp_path / "nobodys"), ["3"])
    with Sender(plan.target) as sender:
        command = [sys.executable, "-m", Step.ROUNDS.value, "--orders-at", sender.place, "--master", "local[2]"]
        with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}) as process:
            try:
                with pytest.raises(RescaleError):
                    result_of(sender.send(unclaimed, Proof.RECORDS))
                result_of(sender.send(plan, Proof.RECORDS))
            finally:
                process.terminate()
    publish(plan)
    validate_published(SOURCE, plan.target, Loop())
    assert not open_store(plan.target).list(orders_place(plan.target)), "the sender removes what it put"


def test_orders_end_when_the_sender_gives_no_sign_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "_SIGN_SECONDS", 0.05)
    monkeypatch.setattr(mailbox, "_PATIENCE_SECONDS", 0.6)
    monkeypatch.setattr(mailbox, "_POLL_SECONDS", 0.01)
    plan, received = claimed(tmp_path / "target"), list[Order]()
    with Sender(plan.target) as sender:
        place = sender.place
        reader = threading.Thread(target=lambda: received.extend(orders_at(place)))
        reader.start()
        results = [sender.send(plan, proof) for proof in (Proof.RECORDS, Proof.CHANGES)]
        time.sleep(1.5)
        assert reader.is_alive(), "the sender lives"
    reader.join(10)
    assert not reader.is_alive()
    assert [(order.proof, order.result) for order in received] == [
        (Proof.RECORDS, results[0]),
        (Proof.CHANGES, results[1]),
    ]
