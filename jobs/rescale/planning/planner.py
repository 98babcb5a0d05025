"""(snapshot, request) → plan. Pure: nothing is read, nothing depends on the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from rescale.flink.metadata.properties import stopped_the_job
from rescale.flink.slot import Slot
from rescale.planning.asked.finished_operators import refuse_finished
from rescale.planning.asked.operator_shapes import Shape, new_shapes
from rescale.planning.asked.request import Files, Request
from rescale.planning.asked.result_kind import becomes_databases, goes_by_record, keeps_heap_timers, stays_on_heap
from rescale.planning.changelog_refusals import refuse_changelog
from rescale.planning.database_refusals import refuse_names
from rescale.planning.database_remarks import of_references
from rescale.planning.element_remarks import of_elements
from rescale.planning.heap_refusals import refuse_heap
from rescale.planning.remarks import of_key_hashes, of_surgery, remarks
from rescale.planning.sink_remarks import of_sinks
from rescale.planning.state_refusals import refuse_unread
from rescale.planning.streams.database_streams import DatabasePlanner
from rescale.planning.streams.element_streams import plan_elements
from rescale.planning.streams.inline import InlineBudget
from rescale.planning.streams.key_group_streams import KeyGroupPlanner
from rescale.planning.streams.keyed_headers import HeaderPlanner
from rescale.planning.streams.rekeyed_streams import plan_heap_timers, plan_rekeyed
from rescale.planning.task_sizes import PART_SIZE, part_size_for
from rescale.planning.values.new_streams import CompactedRows, NewDatabase, PlannedStream
from rescale.planning.values.operator_plan import OperatorPlan
from rescale.planning.values.pieces import Literals
from rescale.planning.values.plan import FORMAT, Plan, SourceFile
from rescale.planning.values.rekeying import Rekeying
from rescale.planning.values.work_class import work_class
from rescale.snapshot.findings import findings
from rescale.snapshot.kafka.offsets import KafkaOffsets
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.surgery import NO_SURGERY, Surgery

CHUNK_SIZE = 4 * 1024 * 1024

_NONE: Mapping[str, str] = MappingProxyType({})


def make_plan(
    snapshot: Snapshot,
    request: Request,
    key_hashes: Mapping[str, str] = _NONE,
    kafka: Sequence[KafkaOffsets] = (),
    surgery: Surgery = NO_SURGERY,
) -> Plan:
    """The plan; raises what stands against it, naming the operator.

    `key_hashes` names, by operator id, how the keys of those operators hash whose records get new key groups;
    `kafka` are the offsets of its Kafka sources, to be talked about. `snapshot` is what it is after the `surgery`.
    """
    shapes = new_shapes(snapshot.operators, request)
    refuse_finished(snapshot.operators, shapes, request)
    snapshot.check_complete()
    literals = Literals(snapshot.written)
    notes: list[str] = []
    planner = _OperatorPlanner(snapshot, request, literals, InlineBudget(), notes)
    operators = tuple(
        planner.plan(operator, shapes[operator.operator_id], key_hashes.get(operator.operator_id))
        for operator in snapshot.operators
    )
    return Plan(
        format=FORMAT,
        source=snapshot.directory,
        target=request.target,
        metadata_sha256=snapshot.metadata_sha256,
        checkpoint_id=snapshot.metadata.checkpoint_id,
        files=tuple(SourceFile(uri, pin) for uri, pin in snapshot.files),
        allow_prefixes=request.allow_prefixes,
        literals=literals.bytes(),
        part_size=part_size_for(sum(one.bytes_of(*Slot) for one in operators), PART_SIZE),
        chunk_size=CHUNK_SIZE,
        operators=operators,
        warnings=(
            *of_surgery(surgery, stopped=stopped_the_job(snapshot.metadata.properties)),
            *of_sinks(snapshot.operators, surgery, request),
            *of_elements(snapshot.operators, shapes),
            *findings(snapshot, kafka),
            *remarks(snapshot, shapes, request, kafka),
            *of_key_hashes(snapshot.operators, request.key_hash, key_hashes),
            *notes,
            *(of_references(snapshot.directory, operators) if request.files is Files.REFER else ()),
        ),
        surgery=surgery,
    )


class _PlannedKeyed(NamedTuple):
    """What an operator's keyed state comes to: streams of whole key groups, or what is made record by record."""

    streams: Sequence[PlannedStream]
    rekeying: Rekeying | None = None
    heap_timers: Rekeying | None = None
    databases: tuple[NewDatabase, ...] = ()
    compacted: tuple[CompactedRows, ...] = ()


@dataclass(frozen=True)
class _OperatorPlanner:
    """Plans one operator after the other; what the user should know is added to `notes`."""

    snapshot: Snapshot
    request: Request
    literals: Literals
    inline: InlineBudget
    notes: list[str]

    def plan(self, operator: Operator, shape: Shape, key_hash: str | None) -> OperatorPlan:
        wanted = self.request.format
        by_record = goes_by_record(operator, shape, wanted)
        refuse_unread(operator)
        refuse_changelog(operator, wanted)
        refuse_names(operator, wanted)
        if by_record:
            refuse_heap(operator)
        headers = HeaderPlanner(operator.label, self.literals)
        groups = KeyGroupPlanner(operator, shape, headers, self.literals, self.inline)
        if by_record:
            keyed = self._by_record(operator, shape, headers, groups, key_hash)
        elif becomes_databases(operator, wanted):
            keyed = self._directories(operator, shape, headers, groups)
        else:
            keyed = _PlannedKeyed(groups.streams())
        elements = plan_elements(operator, shape.parallelism, self.literals, self.inline)
        return OperatorPlan(
            operator_id=operator.operator_id,
            label=operator.label,
            parallelism=operator.parallelism,
            new_parallelism=shape.parallelism,
            max_parallelism=operator.max_parallelism,
            new_max_parallelism=shape.max_parallelism,
            work=work_class(operator.max_parallelism, shape.max_parallelism),
            states=_keyed_states(operator),
            id_tables=tuple(headers.id_tables),
            streams=(*keyed.streams, *elements),
            old_keyed_bytes=_keyed_bytes(operator),
            rekeying=keyed.rekeying,
            heap_timers=keyed.heap_timers,
            databases=keyed.databases,
            compacted=keyed.compacted,
        )

    def _by_record(
        self, operator: Operator, shape: Shape, headers: HeaderPlanner, groups: KeyGroupPlanner, key_hash: str | None
    ) -> _PlannedKeyed:
        """Raw keyed state goes by whole key groups where these stay."""
        wanted = self.request.format
        stay = keeps_heap_timers(operator, wanted)
        rekeying = plan_rekeyed(
            operator,
            shape,
            headers,
            self.literals,
            key_hash,
            timers=() if stay else operator.heap_timers,
            created=_created(self.snapshot) if becomes_databases(operator, wanted) else None,
            stays_on_heap=stays_on_heap(operator, wanted),
        )
        if shape.max_parallelism == operator.max_parallelism:
            return _PlannedKeyed(groups.raw_streams() if stay else groups.own_raw_streams(), rekeying)
        heap_timers = plan_heap_timers(operator, shape, headers, self.literals, key_hash) if stay else None
        return _PlannedKeyed((), rekeying, heap_timers)

    def _directories(
        self, operator: Operator, shape: Shape, headers: HeaderPlanner, groups: KeyGroupPlanner
    ) -> _PlannedKeyed:
        """RocksDB directories that are assembled of whole files, or compacted."""
        sizes = {number: pin.size for number, (_, pin) in enumerate(self.snapshot.files)}
        referring = sizes if self.request.files is Files.REFER else None
        planner = DatabasePlanner(operator, shape, headers, self.literals, self.inline, self.notes, referring)
        planned = planner.plan()
        streams = (*planned.files, *groups.raw_streams())
        return _PlannedKeyed(streams, databases=planned.databases, compacted=planned.compacted)


def _keyed_states(operator: Operator) -> tuple[str, ...]:
    """Every state that stays, with its type, once."""
    known = [state for header in operator.keyed_headers if header is not None for state in header.states]
    staying = [state for state in known if state.name not in operator.left_out]
    return tuple(dict.fromkeys(f"{state.name} ({state.state_type})" for state in staying))


def _keyed_bytes(operator: Operator) -> tuple[int, ...]:
    """Of each old subtask."""
    sizes = [0] * operator.parallelism
    for holder in (*operator.managed_keyed, *operator.raw_keyed):
        sizes[holder.subtask] += holder.size
    return tuple(sizes)


def _created(snapshot: Snapshot) -> int:
    """When the snapshot was taken, in seconds since 1970; RocksDB takes 0 for "unknown"."""
    return max(int(snapshot.taken.timestamp()), 1) if snapshot.taken else 1
