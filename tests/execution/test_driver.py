"""The driver's share of a rescale of a hundred terabytes: units, receipts and payloads of tasks. Nobody moves a byte.

The steps run as they are, with tasks that say what real ones would say, and a store that completes what it is told to.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import pytest

from rescale.execution.progress import Progress
from rescale.execution.rekeying.reduce_task import ReduceTask
from rescale.execution.rekeying.rekeying_run import rekey_streams
from rescale.execution.rekeying.totals import Receipt, packed
from rescale.execution.tasks.protocol import Weighed
from rescale.execution.tasks.shared_function import SharedFunction
from rescale.execution.tasks.slices import slices_of
from rescale.execution.writers import files
from rescale.execution.writers.canonical import canonical_writer
from rescale.execution.writers.canonical.range_parts import WrittenParts
from rescale.execution.writers.files import number_of_parts
from rescale.execution.writers.planned_streams import write_planned_streams
from rescale.execution.writers.stream_units import StreamUnit, UnitResult
from rescale.flink.slot import Slot
from rescale.plan.plan import Plan, plan_to_json
from rescale.planning.task_sizes import MOST_PARTITIONS, MOST_SLICES
from rescale.storage.contract import PartLimits
from support.large_plans import large_plan

TB = 10**12
CORES = 8000
LIMIT = 100_000_000
"""Bytes of whatever reaches the driver, or leaves it."""


class AmazonsParts:
    """The store's side of files in parts; `completed` are how many parts they had."""

    part_limits = PartLimits(5 << 20, 10_000)

    def __init__(self) -> None:
        self.completed: list[int] = []

    def complete_parts(self, uri: str, token: str, receipts: list[str], size: int) -> None:  # noqa: ARG002
        assert len(set(receipts)) == len(receipts)
        self.completed.append(len(receipts))

    def list(self, directory: str) -> list[Any]:  # noqa: ARG002
        return []

    def delete(self, uris: Iterable[str]) -> None:
        assert not list(uris)


@dataclass
class SaidTasks:
    """Say what tasks would; `sent` and `received` are the bytes that go out to them and come back, by what they are."""

    plan: Plan
    cores: int = CORES
    sent: dict[str, int] = field(default_factory=dict)
    received: int = 0

    def receipts(self, number: int) -> bytes:
        """Return packed receipts of so many parts, each an MD5 in hexadecimal digits, as of Amazon's S3."""
        digests = os.urandom(16 * number)
        return files.packed([f'"{digests[i : i + 16].hex()}"' for i in range(0, len(digests), 16)])

    def heard(self, result: Any) -> Any:
        self.received += len(pickle.dumps(result))
        return result

    def run(self, work: Callable[[StreamUnit], Any], units: Weighed[Any], *_: Progress, **__: bool) -> list[Any]:
        if not units:
            return []
        slices = slices_of(units, self.cores)
        assert len(slices) <= 2 * MOST_SLICES
        self.sent["units"] = sum(len(pickle.dumps(some)) for some in slices)
        self.sent["work"] = len(SharedFunction.of(work).packed)
        return [self.heard(UnitResult(u.operator, u.stream, u.part, self.receipts(u.parts))) for _, u in units]

    def shuffle(self, make_sender: Any, units: Weighed[Any], partitions: int, progress: Progress) -> SaidShuffle:  # noqa: ARG002
        slices = slices_of(units, self.cores)
        assert len(slices) <= 2 * MOST_SLICES
        assert partitions <= 2 * MOST_PARTITIONS
        self.sent["units"] = sum(len(pickle.dumps(some)) for some in slices)
        self.sent["map task"] = len(SharedFunction.of(make_sender).packed)
        return SaidShuffle(self)


@dataclass
class SaidShuffle:
    tasks: SaidTasks

    def read(self, partition: int, work: Callable[[Iterable[bytes]], Any]) -> Any:  # noqa: ARG002
        """As if one task had read all of each operator."""

        def read_unit(i: int) -> bytes:
            sizes = np.array(self.tasks.plan.operators[i].expected_key_groups, np.int64)
            return packed(Receipt(i, np.arange(len(sizes)), sizes))

        return self.tasks.heard(work(map(read_unit, range(len(self.tasks.plan.operators)))))

    def write(self, sizes: Mapping[int, int], work: ReduceTask[Any, Any], progress: Progress) -> list[Any]:  # noqa: ARG002
        self.tasks.sent["reduce task"] = len(SharedFunction.of(work).packed)
        return [self._written(load) for partition in sizes for load in pickle.loads(work.works[partition])]

    def _written(self, work: Any) -> WrittenParts:
        parts = number_of_parts(work.size - work.staged, work.part_size)
        parts_written = WrittenParts(
            work.range.operator, work.stream, work.range.first, work.part, self.tasks.receipts(parts)
        )
        written: WrittenParts = self.tasks.heard(parts_written)
        return written


@pytest.fixture
def amazon(monkeypatch: pytest.MonkeyPatch) -> AmazonsParts:
    store, numbers = AmazonsParts(), count()

    def begun(*_: object) -> str:
        return f"{next(numbers):0150}"  # as long as an upload id

    for module in ("rescale.execution.writers.canonical.canonical_writer", "rescale.execution.writers.planned_streams"):
        monkeypatch.setattr(f"{module}.begun_in_parts", begun)
        monkeypatch.setattr(f"{module}.open_store", lambda uri: store)  # noqa: ARG005
    monkeypatch.setattr("rescale.execution.writers.files.open_store", lambda uri: store)  # noqa: ARG005
    monkeypatch.setattr("rescale.execution.rekeying.rekeying_run.number_of_states", lambda *_: 1)
    assert canonical_writer.open_store("s3://bucket/any") is store
    return store


@pytest.mark.slow
def test_a_hundred_thousand_write_ranges(amazon: AmazonsParts) -> None:
    plan = large_plan(100 * TB, 32000, operators=4)
    tasks = SaidTasks(plan)
    handles = rekey_streams(plan, (Slot.KEYED,), tasks, {})
    print(len(plan_to_json(plan)), tasks.sent, tasks.received, sum(amazon.completed))
    assert len(handles) == len(amazon.completed) == sum(operator.new_parallelism for operator in plan.operators)
    assert sum(amazon.completed) >= 100 * TB // (33 << 20), "parts of about 32 MiB, the last one somewhat longer"
    assert len(plan_to_json(plan)) < LIMIT / 4
    assert all(size < LIMIT for size in tasks.sent.values())
    assert tasks.received < LIMIT


@pytest.mark.slow
def test_a_copy_of_a_hundred_terabytes(amazon: AmazonsParts) -> None:
    plan = large_plan(100 * TB, None, operators=1)
    tasks = SaidTasks(plan)
    handles = write_planned_streams(plan, (Slot.KEYED,), tasks, "copy", {})
    print(len(plan_to_json(plan)), tasks.sent, tasks.received, sum(amazon.completed))
    assert len(handles) == len(amazon.completed) == plan.operators[0].new_parallelism
    assert sum(amazon.completed) >= 100 * TB // (128 << 20)
    assert all(size < LIMIT for size in tasks.sent.values())
    assert tasks.received < LIMIT
