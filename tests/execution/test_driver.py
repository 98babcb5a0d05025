"""The data that the driver handles in a rescale of a hundred terabytes: units, receipts and payloads of tasks.

The real steps run, with simulated tasks that return the results of real ones, and a simulated store. No state is moved.
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
from rescale.execution.rekeying.totals import SentSizes, pack_sent_sizes
from rescale.execution.tasks.protocol import Weighed
from rescale.execution.tasks.shared_function import SharedFunction
from rescale.execution.tasks.slices import slices_of
from rescale.execution.writers import files
from rescale.execution.writers.canonical import canonical_writer
from rescale.execution.writers.canonical.parts_layout import PartsWork
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
DRIVER_LIMIT = 100_000_000
"""Largest number of bytes that the driver may receive, or send at once."""


class AmazonParts:
    """A store that completes files in parts. `part_counts` holds the number of parts of each file."""

    part_limits = PartLimits(5 << 20, 10_000)

    def __init__(self) -> None:
        self.part_counts: list[int] = []

    def complete_parts(self, uri: str, upload_id: str, receipts: list[str], size: int) -> None:  # noqa: ARG002
        assert len(set(receipts)) == len(receipts)
        self.part_counts.append(len(receipts))

    def list(self, directory: str) -> list[Any]:  # noqa: ARG002
        return []

    def delete(self, uris: Iterable[str]) -> None:
        assert not list(uris)


@dataclass
class SimulatedTasks:
    """Tasks that return results as real ones would.

    `sent_bytes` has the number of bytes sent to tasks, by kind; `received_bytes` has the number of bytes returned.
    """

    plan: Plan
    cores: int = CORES
    sent_bytes: dict[str, int] = field(default_factory=dict)
    received_bytes: int = 0

    def receipts(self, part_count: int) -> bytes:
        """Return the packed receipts of this number of parts, each an MD5 in hexadecimal digits as from Amazon S3."""
        digests = os.urandom(16 * part_count)
        return files.pack_receipts([f'"{digests[i : i + 16].hex()}"' for i in range(0, len(digests), 16)])

    def count_received(self, result: Any) -> Any:
        self.received_bytes += len(pickle.dumps(result))
        return result

    def run(self, work: Callable[[StreamUnit], Any], units: Weighed[Any], *_: Progress, **__: bool) -> list[Any]:
        if not units:
            return []
        slices = slices_of(units, self.cores)
        assert len(slices) <= 2 * MOST_SLICES
        self.sent_bytes["units"] = sum(len(pickle.dumps(task_slice)) for task_slice in slices)
        self.sent_bytes["work"] = len(SharedFunction.pack(work).packed)
        return [
            self.count_received(
                UnitResult(u.operator_index, u.stream_index, u.first_part_number, self.receipts(u.part_count))
            )
            for _, u in units
        ]

    def shuffle(self, make_sender: Any, units: Weighed[Any], partitions: int, progress: Progress) -> SimulatedShuffle:  # noqa: ARG002
        slices = slices_of(units, self.cores)
        assert len(slices) <= 2 * MOST_SLICES
        assert partitions <= 2 * MOST_PARTITIONS
        self.sent_bytes["units"] = sum(len(pickle.dumps(task_slice)) for task_slice in slices)
        self.sent_bytes["map task"] = len(SharedFunction.pack(make_sender).packed)
        return SimulatedShuffle(self)


@dataclass
class SimulatedShuffle:
    tasks: SimulatedTasks

    def read(self, partition: int, work: Callable[[Iterable[bytes]], Any]) -> Any:  # noqa: ARG002
        """Return what `work` makes of the sizes that one task sends for each operator."""

        def read_unit(i: int) -> bytes:
            sizes = np.array(self.tasks.plan.operators[i].expected_key_group_bytes, np.int64)
            return pack_sent_sizes(SentSizes(i, np.arange(len(sizes)), sizes))

        return self.tasks.count_received(work(map(read_unit, range(len(self.tasks.plan.operators)))))

    def write(self, sizes: Mapping[int, int], work: ReduceTask[Any, Any], progress: Progress) -> list[Any]:  # noqa: ARG002
        self.tasks.sent_bytes["reduce task"] = len(SharedFunction.pack(work).packed)
        return [
            self._write(load) for partition in sizes for load in pickle.loads(work.packed_work_by_partition[partition])
        ]

    def _write(self, work: PartsWork) -> WrittenParts:
        part_count = number_of_parts(work.size - work.staged_bytes, work.part_size)
        parts_written = WrittenParts(
            work.range.operator_index,
            work.stream_index,
            work.range.first,
            work.part_number,
            self.tasks.receipts(part_count),
        )
        written: WrittenParts = self.tasks.count_received(parts_written)
        return written


@pytest.fixture
def amazon(monkeypatch: pytest.MonkeyPatch) -> AmazonParts:
    store, upload_numbers = AmazonParts(), count()

    def new_upload_id(*_: object) -> str:
        return f"{next(upload_numbers):0150}"  # as long as an upload id

    for module in ("rescale.execution.writers.canonical.canonical_writer", "rescale.execution.writers.planned_streams"):
        monkeypatch.setattr(f"{module}.begin_upload", new_upload_id)
        monkeypatch.setattr(f"{module}.open_store", lambda uri: store)  # noqa: ARG005
    monkeypatch.setattr("rescale.execution.writers.files.open_store", lambda uri: store)  # noqa: ARG005
    assert canonical_writer.open_store("s3://bucket/any") is store
    return store


@pytest.mark.slow
def test_driver_handles_few_bytes_when_a_hundred_terabytes_are_written_in_ranges(amazon: AmazonParts) -> None:
    plan = large_plan(100 * TB, 32000, operators=4)
    tasks = SimulatedTasks(plan)
    handles = rekey_streams(plan, (Slot.KEYED,), tasks, {})
    print(len(plan_to_json(plan)), tasks.sent_bytes, tasks.received_bytes, sum(amazon.part_counts))
    assert len(handles) == len(amazon.part_counts) == sum(operator.new_parallelism for operator in plan.operators)
    assert sum(amazon.part_counts) >= 100 * TB // (33 << 20), "parts of about 32 MiB, the last one somewhat longer"
    assert len(plan_to_json(plan)) < DRIVER_LIMIT / 4
    assert all(size < DRIVER_LIMIT for size in tasks.sent_bytes.values())
    assert tasks.received_bytes < DRIVER_LIMIT


@pytest.mark.slow
def test_driver_handles_few_bytes_when_a_hundred_terabytes_are_copied(amazon: AmazonParts) -> None:
    plan = large_plan(100 * TB, None, operators=1)
    tasks = SimulatedTasks(plan)
    handles = write_planned_streams(plan, (Slot.KEYED,), tasks, "copy", {})
    print(len(plan_to_json(plan)), tasks.sent_bytes, tasks.received_bytes, sum(amazon.part_counts))
    assert len(handles) == len(amazon.part_counts) == plan.operators[0].new_parallelism
    assert sum(amazon.part_counts) >= 100 * TB // (128 << 20)
    assert all(size < DRIVER_LIMIT for size in tasks.sent_bytes.values())
    assert tasks.received_bytes < DRIVER_LIMIT
