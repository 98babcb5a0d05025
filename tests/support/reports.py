"""Reports of synthetic jobs, which have large and uneven state without files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from rescale.flink.kafka.position import Position, TopicPartition
from rescale.flink.kafka.source import READER_STATE
from rescale.flink.key_groups import key_group_range
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.handles import DistributionMode
from rescale.planning.planner import make_plan
from rescale.planning.request.request import make_request
from rescale.report.documents import PlanDocument, ReportDocument
from rescale.report.pages.inspection import inspection
from rescale.report.pages.planned import plan_document
from rescale.runstate.certificate import Certificate, CertificateDocument, CertifiedOperator
from rescale.snapshot.kafka.offsets import KafkaKind, KafkaOffsets
from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.model import ElementStream, Operator, Snapshot
from rescale.storage.store import Pin
from support import synthetic
from support.synthetic import header_of

HEADER = header_of("sum")

SOURCE = "/state/savepoint-1a2b"

Sizes = Callable[[Random, int], int]
"""Function that draws the bytes of the key group with a given number."""


def uneven(random: Random, _: int) -> int:
    return int(random.lognormvariate(14, 0.6))


def with_hot_groups(random: Random, key_group: int) -> int:
    return uneven(random, key_group) * (60 if key_group in (17, 90) else 1)


def keyed(parallelism: int, maximum: int, sizes: Sequence[int]) -> tuple[KeyedStream, ...]:
    streams = []
    for subtask in range(parallelism):
        own = key_group_range(maximum, parallelism, subtask)
        groups = {group: sizes[group] for group in range(own.first, own.last + 1)}
        streams.append(
            synthetic.keyed_stream(subtask, groups, Framing.CANONICAL, HEADER, first=own.first, last=own.last)
        )
    return tuple(streams)


def element_streams(
    parallelism: int, states: dict[str, tuple[DistributionMode, Callable[[int], int]]]
) -> tuple[ElementStream, ...]:
    return tuple(
        synthetic.element_stream(i, {name: (mode, number(i)) for name, (mode, number) in states.items()})
        for i in range(parallelism)
    )


def job(parallelism: int, maximum: int, operators: int = 3, seed: int = 7) -> tuple[Snapshot, tuple[KafkaOffsets, ...]]:
    """Return the snapshot and the Kafka offsets of a job.

    The job has a Kafka source, as many operators with keyed state as `operators` says (the first with hot key groups),
    one operator with RocksDB directories, and one with list state.
    """
    random = Random(seed)
    names = ["visits", "revenue", "sessions", "carts", "profiles", "alerts"]
    operators_so_far: list[Operator] = []
    partitions = max(8, 3 * parallelism // 2)
    splits = {READER_STATE: (DistributionMode.SPLIT_DISTRIBUTE, lambda i: len(range(i, partitions, parallelism)))}
    source = synthetic.operator("clicks", parallelism, maximum, elements=element_streams(parallelism, splits))
    operators_so_far.append(source)
    for number in range(operators):
        sizes = [(with_hot_groups if number == 0 else uneven)(random, group) >> number for group in range(maximum)]
        label = names[number] if number < len(names) else f"{names[number % len(names)]}-{number}"
        operators_so_far.append(
            synthetic.operator(label, parallelism, maximum, keyed=keyed(parallelism, maximum, sizes))
        )
    databases = tuple(
        synthetic.database(i, parallelism, maximum, int(random.gauss(4e7, 6e6))) for i in range(parallelism)
    )
    operators_so_far.append(synthetic.operator("history", parallelism, maximum, databases=databases))
    lists = {
        "pending": (DistributionMode.SPLIT_DISTRIBUTE, lambda i: 3 + i % 5),
        "offsets": (DistributionMode.UNION, lambda i: 1 + i % 2),
        "rules": (DistributionMode.BROADCAST, lambda _: 1),
    }
    operators_so_far.append(
        synthetic.operator("sink", parallelism, maximum, elements=element_streams(parallelism, lists))
    )
    positions = [
        Position(TopicPartition("clicks", partition), 1000 * partition, None)
        for reader in range(parallelism)
        for partition in range(reader, partitions, parallelism)
    ]
    subtasks = tuple(reader for reader in range(parallelism) for _ in range(reader, partitions, parallelism))
    kafka = KafkaOffsets(source, KafkaKind.SOURCE, tuple(positions), subtasks)
    files = [(f"{SOURCE}/_metadata", Pin(9))]
    files += [(f"{SOURCE}/{number}", Pin(1 << 30)) for number in range(1, parallelism + 1)]
    taken = replace(synthetic.snapshot(*operators_so_far), files=tuple(files), directory=SOURCE)
    return taken, (kafka,)


STEP_SECONDS = {"reshuffle": 9.2, "redistribute": 5.1, "validate": 11.3}


def snapshot_report(parallelism: int, maximum: int, operators: int = 3) -> ReportDocument:
    taken, kafka = job(parallelism, maximum, operators)
    return ReportDocument(snapshot=inspection(taken, kafka))


def plan_of_report(old: tuple[int, int], new: tuple[int, int], operators: int = 3) -> PlanDocument:
    """Return the document of a plan from `old` to `new` (parallelism, max parallelism)."""
    taken, kafka = job(*old, operators)
    taken = _without_databases(taken)  # with databases, planning would read files
    maximum = [] if new[1] == old[1] else [str(new[1])]
    request = make_request(SOURCE, "/state/rescaled", [str(new[0])], max_parallelism=maximum)
    plan = make_plan(taken, request, {operator.operator_id: "known" for operator in taken.operators}, kafka)
    return plan_document(plan, taken, kafka)


def plan_report(old: tuple[int, int], new: tuple[int, int], operators: int = 3) -> ReportDocument:
    return ReportDocument(plan=plan_of_report(old, new, operators))


def certificate_of(plan: PlanDocument) -> CertificateDocument:
    """Return the certificate that validation would write for a plan."""
    return Certificate(
        "complete",
        "every key group, list element, union element and broadcast copy of the source is in the result",
        None,
        "sums mod 2^128 of 128-bit XXH3 digests of key groups and elements",
        plan.source,
        "ab" * 32,
        plan.target,
        "cd" * 32,
        plan.plan,
        (),
        plan.bytes_moved,
        tuple(
            CertifiedOperator(
                operator.operator_id,
                operator.label,
                operator.new_parallelism,
                operator.new_max_parallelism,
                operator.new_max_parallelism if operator.keyed_bytes else 0,
                3,
                0,
                operator.keyed_bytes + operator.operator_bytes,
                "0123456789abcdef",
                None,
            )
            for operator in plan.operators
        ),
        (),
        plan.start or "",
        surgery=plan.surgery,
    ).document()


def proven(plan: PlanDocument) -> ReportDocument:
    """Return the report of a plan after its result was published."""
    return ReportDocument(plan=plan, certificate=certificate_of(plan), published=True, took=STEP_SECONDS)


def _without_databases(taken: Snapshot) -> Snapshot:
    return replace(taken, operators=tuple(operator for operator in taken.operators if not operator.databases))
